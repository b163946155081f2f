package cachestore

import (
	"encoding/binary"
	"hash/crc32"
	"maps"
	"slices"
	"strings"
)

// purges remembers what was purged, by numbers that grow. An object is examined once it is looked
// up: its number is that of the last purge when its filling began. So a purge walks through nothing
// that others wait for, and reaches files whose heads nobody has read. The holder of Store.mu uses
// it.
type purges struct {
	seq      uint64 // the last number, of a purge or a file
	now      uint64 // the last purge
	all      marks
	tags     map[string]marks
	prefixes []prefixMark
	keys     map[uint64]marks // by hash; only where there may be files with unread heads
	sweeping bool
}

// marks are the numbers of the last hard and soft purge of one thing.
type marks struct{ hard, soft uint64 }

type prefixMark struct {
	prefix string
	marks
}

func (m *marks) set(n uint64, soft bool) {
	if soft {
		m.soft = n
	} else {
		m.hard = n
	}
}

func (m *marks) join(x marks) { m.hard, m.soft = max(m.hard, x.hard), max(m.soft, x.soft) }

// mark is one purge: of all, a prefix, a tag, or a key, of which there is the hash.
type mark struct {
	n    uint64
	kind byte
	soft bool
	text string
}

const (
	ofAll    = 'a'
	ofPrefix = 'p'
	ofTag    = 't'
	ofKey    = 'k'
)

func hashText(hash uint64) string { return string(binary.LittleEndian.AppendUint64(nil, hash)) }

// marksOf makes marks of a purge.
func (p *purges) marksOf(x Purge, hash uint64) (list []mark) {
	p.seq++
	p.now = p.seq
	m := mark{n: p.now, soft: x.Soft}
	switch {
	case x.All:
		m.kind = ofAll
	case x.Key != nil:
		m.kind, m.text = ofKey, hashText(hash)
	case x.Prefix != nil:
		m.kind, m.text = ofPrefix, string(x.Prefix)
	default:
		m.kind = ofTag
		for _, tag := range x.Tags {
			if tag != "" {
				m.text = strings.Clone(tag)
				list = append(list, m)
			}
		}
		return list
	}
	return []mark{m}
}

// add takes a mark in.
func (p *purges) add(m mark) {
	p.seq, p.now = max(p.seq, m.n), max(p.now, m.n)
	switch m.kind {
	case ofAll:
		p.all.set(m.n, m.soft)
	case ofPrefix:
		i := slices.IndexFunc(p.prefixes, func(x prefixMark) bool { return x.prefix == m.text })
		if i < 0 {
			i = len(p.prefixes)
			p.prefixes = append(p.prefixes, prefixMark{prefix: m.text})
		}
		p.prefixes[i].set(m.n, m.soft)
	case ofTag:
		x := p.tags[m.text]
		x.set(m.n, m.soft)
		p.tags[m.text] = x
	case ofKey:
		hash := binary.LittleEndian.Uint64([]byte(m.text))
		x := p.keys[hash]
		x.set(m.n, m.soft)
		p.keys[hash] = x
	}
}

// list returns all marks.
func (p *purges) list() (list []mark) {
	add := func(kind byte, text string, m marks) {
		if m.hard > 0 {
			list = append(list, mark{n: m.hard, kind: kind, text: text})
		}
		if m.soft > 0 {
			list = append(list, mark{n: m.soft, kind: kind, soft: true, text: text})
		}
	}
	add(ofAll, "", p.all)
	for _, x := range p.prefixes {
		add(ofPrefix, x.prefix, x.marks)
	}
	for tag, m := range p.tags {
		add(ofTag, tag, m)
	}
	for hash, m := range p.keys {
		add(ofKey, hashText(hash), m)
	}
	return list
}

// many reports whether there are so many marks that all objects should be judged, and the marks
// forgotten.
func (p *purges) many() bool {
	return len(p.tags)+len(p.keys) > maxMarks || len(p.prefixes) > maxMarks/16
}

// maxMarks bounds what purges remembers, but for a while.
const maxMarks = 4096

// forget forgets marks up to a number.
func (p *purges) forget(n uint64) {
	done := func(m marks) bool { return max(m.hard, m.soft) <= n }
	p.prefixes = slices.DeleteFunc(p.prefixes, func(m prefixMark) bool { return done(m.marks) })
	maps.DeleteFunc(p.tags, func(_ string, m marks) bool { return done(m) })
	maps.DeleteFunc(p.keys, func(_ uint64, m marks) bool { return done(m) })
}

// judge says what purges after number since have done to an object.
func (p *purges) judge(since uint64, e *entry, tags string) (hard, soft bool) {
	last := p.all
	if len(p.keys) > 0 {
		last.join(p.keys[e.hash])
	}
	for i := range p.prefixes {
		if x := &p.prefixes[i]; max(x.hard, x.soft) > since && strings.HasPrefix(e.key, x.prefix) {
			last.join(x.marks)
		}
	}
	if len(p.tags) > 0 {
		for tag := range strings.SplitSeq(tags, " ") {
			last.join(p.tags[tag])
		}
	}
	return last.hard > since, last.soft > since
}

// gone reports whether a file, whose head was not read, was purged by its key or with all others.
func (p *purges) gone(hash, id uint64) bool {
	return p.all.hard > id || len(p.keys) > 0 && p.keys[hash].hard > id
}

// appendMark appends a mark as the file purges has it: a length, a CRC-32C of what follows, the
// number, the kind, 1 for soft, the text.
func appendMark(b []byte, m mark) []byte {
	le := binary.LittleEndian
	b = le.AppendUint32(b, uint32(10+len(m.text)))
	at := len(b)
	b = le.AppendUint32(b, 0)
	b = le.AppendUint64(b, m.n)
	soft := byte(0)
	if m.soft {
		soft = 1
	}
	b = append(b, m.kind, soft)
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
		if n < 10 || n > int64(len(b)-8) {
			return list, false
		}
		x := b[8 : 8+n]
		if crc32.Checksum(x, castagnoli) != le.Uint32(b[4:]) {
			return list, false
		}
		m := mark{n: le.Uint64(x), kind: x[8], soft: x[9] == 1, text: string(x[10:])}
		if m.kind == ofKey && len(m.text) != 8 {
			return list, false
		}
		list = append(list, m)
		b = b[8+n:]
	}
	return list, true
}
