package cachestore

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
	"time"
)

// purges remembers what was purged, by numbers that grow. An object is examined once it is looked
// up: its number is that of the last purge when its filling began. So a purge walks through nothing
// that others wait for, and reaches files whose heads nobody has read. The holder of Store.mu uses
// it.
type purges struct {
	seq      uint64 // the last number, of a purge or a file
	now      uint64 // the last purge
	wanted   uint64 // the last purge that needs a sweep, see Store.sweep
	all      marks
	tags     map[string]marks
	prefixes []prefixMark
	lines    map[uint64]marks // by hash, see Purge.Lines
	owned    bool             // some of tags have an owner
	sweeping bool
	lost     bool   // marks were forgotten that files of the folder may need: it is another process's
	unseen   uint64 // those up to this number were, and files may need them that no entry has
}

// marks are the numbers of the last hard and soft purge of one thing, and the Unix time of the
// latter.
type marks struct {
	hard, soft uint64
	at         uint32
}

type prefixMark struct {
	text, prefix, owner string // text as mark has it
	owned               bool
	marks
}

func (m *marks) set(x mark) {
	if x.soft > 0 {
		m.soft, m.at = x.n, x.soft
	} else {
		m.hard = x.n
	}
}

func (m *marks) join(x marks) {
	m.hard = max(m.hard, x.hard)
	if x.soft > m.soft {
		m.soft, m.at = x.soft, x.at
	}
}

// mark is one purge: of all, a prefix, a tag, or of the first lines of keys, of which there is the
// hash. Behind a prefix or a tag there may be a line end and an owner.
type mark struct {
	n    uint64
	kind byte
	soft uint32 // the Unix time of a soft purge; 0: it is a hard one
	text string
}

const (
	ofAll    = 'a'
	ofPrefix = 'p'
	ofTag    = 't'
	ofLine   = 'l'
)

func hashText(hash uint64) string { return string(binary.LittleEndian.AppendUint64(nil, hash)) }

// marksOf makes marks of a purge, but of lines that are dropped at once. The caller holds s.mu.
func (s *Store) marksOf(x Purge) (list []mark) {
	owner := ""
	if x.Owner != nil {
		owner = "\n" + string(x.Owner)
	}
	p := &s.purges
	n := p.seq + 1
	soft := uint32(0)
	if x.Soft {
		soft = uint32(time.Now().Unix())
	}
	add := func(kind byte, text string) {
		list = append(list, mark{n: n, kind: kind, soft: soft, text: text})
	}
	if x.All {
		add(ofAll, "")
	}
	for _, prefix := range x.Prefixes {
		add(ofPrefix, string(prefix)+owner)
	}
	for _, line := range x.Lines {
		if !s.dropLine(line, soft) {
			add(ofLine, hashText(s.sum(line)))
		}
	}
	for _, tag := range x.Tags {
		if tag != "" {
			add(ofTag, strings.Clone(tag+owner))
		}
	}
	if len(list) > 0 {
		p.seq, p.now = n, n
	}
	return list
}

// add takes a mark in.
func (p *purges) add(m mark) {
	p.seq, p.now = max(p.seq, m.n), max(p.now, m.n)
	switch m.kind {
	case ofAll:
		p.all.set(m)
	case ofPrefix:
		i := slices.IndexFunc(p.prefixes, func(x prefixMark) bool { return x.text == m.text })
		if i < 0 {
			i = len(p.prefixes)
			x := prefixMark{text: m.text}
			x.prefix, x.owner, x.owned = strings.Cut(m.text, "\n")
			p.prefixes = append(p.prefixes, x)
		}
		p.prefixes[i].set(m)
	case ofTag:
		p.owned = p.owned || strings.Contains(m.text, "\n")
		x := p.tags[m.text]
		x.set(m)
		p.tags[m.text] = x
	case ofLine:
		hash := binary.LittleEndian.Uint64([]byte(m.text))
		x := p.lines[hash]
		x.set(m)
		p.lines[hash] = x
	}
}

// list returns all marks.
func (p *purges) list() (list []mark) {
	add := func(kind byte, text string, m marks) {
		if m.hard > 0 {
			list = append(list, mark{n: m.hard, kind: kind, text: text})
		}
		if m.soft > 0 {
			list = append(list, mark{n: m.soft, kind: kind, soft: m.at, text: text})
		}
	}
	add(ofAll, "", p.all)
	if p.unseen > p.all.hard {
		list = append(list, mark{n: p.unseen, kind: ofAll}) // a restart would find them
	}
	for _, x := range p.prefixes {
		add(ofPrefix, x.text, x.marks)
	}
	for tag, m := range p.tags {
		add(ofTag, tag, m)
	}
	for hash, m := range p.lines {
		add(ofLine, hashText(hash), m)
	}
	return list
}

// many reports whether there are so many marks that all objects should be judged, and the marks
// forgotten.
func (p *purges) many() bool {
	return len(p.tags) > maxMarks || len(p.prefixes) > maxMarks/16 ||
		len(p.lines) > maxLines
}

// maxMarks bounds what purges remembers, but for a while.
const maxMarks = 4096

// maxLines bounds the lines, which take little and come with each change of something.
const maxLines = 1 << 15

// forget forgets marks up to a number.
func (p *purges) forget(n uint64) {
	done := func(m marks) bool { return max(m.hard, m.soft) <= n }
	p.prefixes = slices.DeleteFunc(p.prefixes, func(m prefixMark) bool { return done(m.marks) })
	maps.DeleteFunc(p.tags, func(_ string, m marks) bool { return done(m) })
	maps.DeleteFunc(p.lines, func(_ uint64, m marks) bool { return done(m) })
}

// judge says what purges after number since have done to an object. The caller holds s.mu.
func (s *Store) judge(since uint64, key, tags string) (hard bool, soft uint32) {
	p := &s.purges
	last := p.all
	line, rest, more := strings.Cut(key, "\n")
	owner, _, _ := strings.Cut(rest, "\n")
	if len(p.lines) > 0 {
		last.join(p.lines[s.sum([]byte(line))])
		if more {
			last.join(p.lines[s.sum([]byte(key[:len(line)+1+len(owner)]))])
		}
	}
	for i := range p.prefixes {
		if x := &p.prefixes[i]; max(x.hard, x.soft) > since && strings.HasPrefix(key, x.prefix) &&
			(!x.owned || x.owner == owner) {
			last.join(x.marks)
		}
	}
	if len(p.tags) > 0 {
		var space [128]byte
		owned := space[:0]
		for tag := range strings.SplitSeq(tags, " ") {
			last.join(p.tags[tag])
			if p.owned {
				owned = append(append(append(owned[:0], tag...), '\n'), owner...)
				last.join(p.tags[string(owned)]) // which allocates nothing
			}
		}
	}
	if last.soft > since {
		soft = last.at
	}
	return last.hard > since, soft
}

// gone reports whether a file, whose head was not read, was purged with all others.
func (p *purges) gone(id uint64) bool { return p.all.hard > id }

// markHead is the length of a mark without its text, in bytes.
const markHead = 13

// appendMark appends a mark as the file purges has it: a length, a CRC-32C of what follows, the
// number, the kind, the Unix time of a soft purge or 0, the text.
func appendMark(b []byte, m mark) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(markHead+len(m.text)))
	at := len(b)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, m.n)
	b = append(b, m.kind)
	b = le.AppendUint32(b, m.soft)
	b = append(b, m.text...)
	le.PutUint32(b[at:], crc32.Checksum(b[at+4:], castagnoli))
	return b
}

// parseMarks reads what appendMark has made. ok is false if there is something else.
func parseMarks(b []byte) (list []mark, ok bool) {
	le := binary.LittleEndian
	for len(b) > 0 {
		if len(b) < 8 {
			return list, false
		}
		n := int64(le.Uint32(b))
		if n < markHead || n > int64(len(b)-8) {
			return list, false
		}
		x := b[8 : 8+n]
		if crc32.Checksum(x, castagnoli) != le.Uint32(b[4:]) {
			return list, false
		}
		m := mark{n: le.Uint64(x), kind: x[8], soft: le.Uint32(x[9:]), text: string(x[markHead:])}
		switch m.kind {
		case ofAll, ofPrefix, ofTag:
		case ofLine:
			if len(m.text) != 8 {
				return list, false
			}
		default:
			return list, false
		}
		list = append(list, m)
		b = b[8+n:]
	}
	return list, true
}
