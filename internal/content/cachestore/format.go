package cachestore

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

// A file begins with its head: numbers of a fixed size, then the strings. Room is left behind it
// for the head that a 304 may bring. Then comes the body, up to the end of the file. All numbers
// are little-endian.
//
//	 0  magic, with the version of the format
//	 8  offset of the body, 32 bits
//	12  status, 32 bits
//	16  length of the body, 64 bits
//	24  CRC-32C of the body, 32 bits
//	28  Unix time of the soft purge that has made it stale, 32 bits; 0: none has
//	32  the last purge that does not matter for it, 64 bits
//	40  lengths of key, fields, vary, tags and note, 32 bits each
//	60  CRC-32C of all of the head but this one
//	64  the strings
const (
	magic     = "lwcache2"
	fixedHead = 64
	maxHead   = 4 << 20 // bytes
)

var errDamaged = errors.New("damaged")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// record is what a file's head says.
type record struct {
	head  Head
	key   string
	note  string // see Options.Note
	body  int64  // its offset
	size  int64  // of the body
	crc   uint32
	stale uint32
	seen  uint64
}

// room returns where the body begins behind a head of the record's length.
func (r *record) room() int64 {
	n := int64(fixedHead + len(r.key) + len(r.head.Fields) + len(r.head.Vary) + len(r.head.Tags) +
		len(r.note))
	return (n + n/4 + 128 + 511) &^ 511
}

// encode returns the head as bytes. It fails if there is no room for it before the body.
func (r *record) encode() ([]byte, error) {
	le := binary.LittleEndian
	b := make([]byte, fixedHead, r.body)
	copy(b, magic)
	le.PutUint32(b[8:], uint32(r.body))
	le.PutUint32(b[12:], uint32(r.head.Status))
	le.PutUint64(b[16:], uint64(r.size))
	le.PutUint32(b[24:], r.crc)
	le.PutUint32(b[28:], r.stale)
	le.PutUint64(b[32:], r.seen)
	for i, s := range []string{r.key, r.head.Fields, r.head.Vary, r.head.Tags, r.note} {
		le.PutUint32(b[40+4*i:], uint32(len(s)))
		b = append(b, s...)
	}
	if int64(len(b)) > r.body || len(b) > maxHead {
		return nil, errors.New("the head is too long")
	}
	le.PutUint32(b[60:], headSum(b))
	return b, nil
}

// sameBody takes over what another head of the file says of the body.
func (r *record) sameBody(head []byte) {
	le := binary.LittleEndian
	r.body, r.size = int64(le.Uint32(head[8:])), int64(le.Uint64(head[16:]))
	r.crc = le.Uint32(head[24:])
}

func headSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:60], castagnoli), castagnoli, b[fixedHead:])
}

// headLen returns the length of the head that begins with b, which has fixedHead bytes.
func headLen(b []byte) (int, error) {
	if string(b[:8]) != magic {
		return 0, errDamaged
	}
	n := int64(fixedHead)
	for i := range 5 {
		n += int64(binary.LittleEndian.Uint32(b[40+4*i:]))
	}
	if n > maxHead {
		return 0, errDamaged
	}
	return int(n), nil
}

// decode reads a whole head, and compares it with the length of its file.
func decode(b []byte, fileSize int64) (*record, error) {
	if len(b) < fixedHead {
		return nil, errDamaged
	}
	n, err := headLen(b)
	if err != nil || n > len(b) {
		return nil, errDamaged
	}
	le := binary.LittleEndian
	if b = b[:n]; headSum(b) != le.Uint32(b[60:]) {
		return nil, errDamaged
	}
	r := &record{
		body: int64(le.Uint32(b[8:])), size: int64(le.Uint64(b[16:])), crc: le.Uint32(b[24:]),
		stale: le.Uint32(b[28:]), seen: le.Uint64(b[32:]),
	}
	if r.size < 0 || r.body < int64(n) || fileSize-r.body != r.size {
		return nil, errDamaged
	}
	r.head.Status = int(le.Uint32(b[12:]))
	all := b[fixedHead:]
	for i, s := range []*string{&r.key, &r.head.Fields, &r.head.Vary, &r.head.Tags, &r.note} {
		n := le.Uint32(b[40+4*i:])
		*s, all = string(all[:n]), all[n:]
	}
	return r, nil
}

// fileName is the name of a file: its folder, one of 256, the hash of its key, its number, and its
// length.
func fileName(hash, id uint64, size int64) string {
	return fmt.Sprintf("%02x/%016x-%016x-%x", hash>>56, hash, id, size)
}

// parseName is the reverse of fileName, without the folder.
func parseName(name string) (hash, id uint64, size int64, ok bool) {
	parts := strings.Split(name, "-")
	if len(parts) != 3 || len(parts[0]) != 16 || len(parts[1]) != 16 {
		return 0, 0, 0, false
	}
	hash, err1 := strconv.ParseUint(parts[0], 16, 64)
	id, err2 := strconv.ParseUint(parts[1], 16, 64)
	size, err3 := strconv.ParseInt(parts[2], 16, 64)
	ok = err1 == nil && err2 == nil && err3 == nil && size >= fixedHead
	return hash, id, size, ok && strings.HasSuffix(fileName(hash, id, size), "/"+name)
}
