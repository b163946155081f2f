package http2

import (
	"errors"

	"github.com/lwango/lwango/internal/wire/http1"
)

// TableSize is the size of a Decoder's dynamic table in bytes, as RFC 7541 section 4.1 counts them.
// It is what SETTINGS_HEADER_TABLE_SIZE says unless a server says something else.
const TableSize = 4096

// entrySize is what each entry of the table, and each field of a list, counts beside its octets.
const entrySize = 32

// Errors of Decode. All of them end the connection with COMPRESSION_ERROR (RFC 9113 section 4.3):
// the table is not what the client takes it for.
var (
	errInteger   = errors.New("http2: bad integer in a field block")
	errTruncated = errors.New("http2: field block ends within a field")
	errIndex     = errors.New("http2: index of no field")
	errUpdate    = errors.New("http2: bad update of the table's size")
	errList      = errors.New("http2: list of fields is far too long")
)

// Fields is what field blocks decode to. Each field stands in Buf as its name, a colon, its value
// and a LF, as in a head of HTTP/1.1, so that a http1.Head can point to it.
type Fields struct {
	Buf  []byte
	List []http1.Field

	// Limit is how many bytes the fields may have, counted as SETTINGS_MAX_HEADER_LIST_SIZE does.
	// What comes beyond it is dropped, and Over says so.
	Limit    int
	TooLarge bool
	size     int
	kinds    kind // of the fields together

	Priority http1.Span // the value of that field (RFC 9218), once Head was called; empty: none
}

// Reset makes f empty, with that limit. It keeps the memory.
func (f *Fields) Reset(limit int) { *f = Fields{Buf: f.Buf[:0], List: f.List[:0], Limit: limit} }

// Each calls do for each field.
func (f *Fields) Each(do func(name, value []byte)) {
	for _, field := range f.List {
		do(field.Name.Of(f.Buf), field.Value.Of(f.Buf))
	}
}

// fits counts a field, and reports whether it is to be kept.
func (f *Fields) fits(octets int) bool {
	f.size += octets + entrySize
	f.TooLarge = f.TooLarge || f.size > f.Limit
	return !f.TooLarge
}

// add makes what Buf has from start on, whose name ends at colon, a field.
func (f *Fields) add(start, colon int, k kind) {
	if k&pseudo != 0 && f.kinds&regular != 0 {
		k |= misplaced
	}
	f.kinds |= k
	f.List = append(f.List, http1.Field{
		Name:  http1.Span{Start: uint32(start), End: uint32(colon)},
		Value: http1.Span{Start: uint32(colon + 1), End: uint32(len(f.Buf))},
	})
	f.Buf = append(f.Buf, '\n')
}

// Decoder decodes the field blocks that one side of a connection sends, in order (RFC 7541). The
// zero value is ready for use. It allocates only to let its table, or Fields, grow.
type Decoder struct {
	octets  []byte  // of the entries in the table, oldest first
	entries []entry // likewise
	first   int     // the oldest that is still in the table
	size    int
	limited bool // max is the client's
	max     int
}

// entry is a name and a value in octets, with a colon between them.
type entry struct {
	at, name, value int
	kind            kind
}

// kind is what checks of a field have found. A field of a table is checked once.
type kind uint8

const (
	pseudo    kind = 1 << iota // its name begins with a colon: see Request and Response
	regular                    // any other
	malformed                  // see allowed
	badText                    // not even HTTP/1.1 allows it: see http1.CheckField
	misplaced                  // a pseudo-header field behind a regular one (RFC 9113 section 8.3)
)

func kindOf(name, value []byte) kind {
	if len(name) > 0 && name[0] == ':' {
		return pseudo
	}
	k := regular
	if !allowed(name, value) {
		k |= malformed
	}
	if http1.CheckField(name, value) != nil {
		k |= badText
	}
	return k
}

func (d *Decoder) limit() int {
	if d.limited {
		return d.max
	}
	return TableSize
}

// Decode adds the fields of a block to f. After an error the Decoder is of no more use. A list that
// is 16 times as long as f takes, and longer than leastError, is an error: a block may be a
// hundredth of what it decodes to, and the table must follow also what is dropped.
func (d *Decoder) Decode(block []byte, f *Fields) (err error) {
	most := max(16*f.Limit, leastError)
	begun := false // updates of the size stand at the beginning (section 4.2)
	for len(block) > 0 {
		b := block[0]
		var index uint
		switch {
		case b&0x80 != 0: // indexed, section 6.1
			if index, block, err = integer(block, 7); err == nil {
				err = d.indexed(index, f)
			}
		case b&0xc0 == 0x40: // literal, and kept, section 6.2.1
			block, err = d.literal(block, 6, true, f)
		case b&0xe0 == 0x20: // update, section 6.3
			if index, block, err = integer(block, 5); err == nil && (begun || index > TableSize) {
				err = errUpdate
			}
			if err == nil {
				d.max, d.limited = int(index), true
				d.evict(d.max)
			}
			if err != nil {
				return err
			}
			continue
		default: // literal, not kept, sections 6.2.2 and 6.2.3
			block, err = d.literal(block, 4, false, f)
		}
		if err != nil {
			return err
		}
		if begun = true; f.size > most {
			return errList
		}
	}
	return nil
}

const leastError = 256 << 10

// indexed adds a field of the tables.
func (d *Decoder) indexed(index uint, f *Fields) error {
	if index-1 < uint(len(staticTable)) {
		f.take(&staticEntries[index-1], staticOctets)
		return nil
	}
	e, err := d.at(index)
	if err != nil {
		return err
	}
	f.take(e, d.octets)
	return nil
}

// take adds the field of an entry.
func (f *Fields) take(e *entry, octets []byte) {
	if f.fits(e.name + e.value) {
		start := len(f.Buf)
		f.Buf = append(f.Buf, octets[e.at:e.at+e.name+1+e.value]...)
		f.add(start, start+e.name, e.kind)
	}
}

// at returns the entry of the dynamic table that has the index: the newest comes first.
func (d *Decoder) at(index uint) (*entry, error) {
	i := index - 1 - uint(len(staticTable))
	if index == 0 || i >= uint(len(d.entries)-d.first) {
		return nil, errIndex
	}
	return &d.entries[len(d.entries)-1-int(i)], nil
}

// literal adds a field that stands in the block, and maybe keeps it in the table.
func (d *Decoder) literal(block []byte, prefix uint, keep bool, f *Fields) ([]byte, error) {
	index, block, err := integer(block, prefix)
	if err != nil {
		return nil, err
	}
	start := len(f.Buf)
	switch {
	case index == 0:
		if f.Buf, block, err = appendString(f.Buf, block); err != nil {
			return nil, err
		}
	case index <= uint(len(staticTable)):
		f.Buf = append(f.Buf, staticTable[index-1].name...)
	default:
		e, err := d.at(index)
		if err != nil {
			return nil, err
		}
		f.Buf = append(f.Buf, d.octets[e.at:e.at+e.name]...)
	}
	colon := len(f.Buf)
	f.Buf = append(f.Buf, ':')
	if f.Buf, block, err = appendString(f.Buf, block); err != nil {
		return nil, err
	}
	k := kindOf(f.Buf[start:colon], f.Buf[colon+1:])
	if keep {
		d.add(f.Buf[start:], colon-start, k)
	}
	if f.fits(len(f.Buf) - start - 1) {
		f.add(start, colon, k)
	} else {
		f.Buf = f.Buf[:start]
	}
	return block, nil
}

// add makes room in the table for a field, which is a name of that length, a colon and a value, and
// puts it there if it fits.
func (d *Decoder) add(field []byte, name int, k kind) {
	size := len(field) - 1 + entrySize
	d.evict(d.limit() - size)
	if size > d.limit() {
		return
	}
	// What has left the table is moved over when it is most of what there is.
	if d.first > 16 && d.first > len(d.entries)/2 {
		d.compact()
	}
	d.entries = append(d.entries, entry{len(d.octets), name, len(field) - 1 - name, k})
	d.octets = append(d.octets, field...)
	d.size += size
}

// evict drops entries, oldest first, until the table has no more than most bytes.
func (d *Decoder) evict(most int) {
	for d.size > most && d.first < len(d.entries) {
		e := &d.entries[d.first]
		d.size -= e.name + e.value + entrySize
		d.first++
	}
	if d.first == len(d.entries) {
		d.entries, d.octets, d.first = d.entries[:0], d.octets[:0], 0
	}
}

func (d *Decoder) compact() {
	from := d.entries[d.first].at
	d.octets = d.octets[:copy(d.octets, d.octets[from:])]
	d.entries = d.entries[:copy(d.entries, d.entries[d.first:])]
	for i := range d.entries {
		d.entries[i].at -= from
	}
	d.first = 0
}

// Trim gives up the memory of the table that it does not need at present.
func (d *Decoder) Trim() {
	if len(d.entries) == 0 {
		d.octets, d.entries = nil, nil
		return
	}
	d.compact()
	d.octets = append(make([]byte, 0, len(d.octets)), d.octets...)
	d.entries = append(make([]entry, 0, len(d.entries)), d.entries...)
}

// integer reads an integer whose first bits are in the last prefix bits of the first octet (RFC
// 7541 section 5.1). None that means something is larger than 2^28.
func integer(b []byte, prefix uint) (n uint, rest []byte, err error) {
	if len(b) == 0 {
		return 0, nil, errTruncated
	}
	most := uint(1)<<prefix - 1
	n = uint(b[0]) & most
	if b = b[1:]; n < most {
		return n, b, nil
	}
	for shift := uint(0); len(b) > 0; shift += 7 {
		if shift > 21 {
			return 0, nil, errInteger
		}
		c := b[0]
		b = b[1:]
		n += uint(c&0x7f) << shift
		if c&0x80 == 0 {
			return n, b, nil
		}
	}
	return 0, nil, errTruncated
}

// appendString reads a string literal (RFC 7541 section 5.2), and appends it.
func appendString(dst, b []byte) (_, rest []byte, err error) {
	if len(b) == 0 {
		return dst, nil, errTruncated
	}
	coded := b[0]&0x80 != 0
	n, b, err := integer(b, 7)
	if err != nil {
		return dst, nil, err
	}
	if n > uint(len(b)) {
		return dst, nil, errTruncated
	}
	if coded {
		dst, err = appendHuffman(dst, b[:n])
	} else {
		dst = append(dst, b[:n]...)
	}
	return dst, b[n:], err
}
