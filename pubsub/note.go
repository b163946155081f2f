package pubsub

import (
	"encoding/binary"
	"errors"
)

// note is what a process tells the others of its members, as a message of PresenceTopic. It is a
// letter, the number of the last change of that process, and what the kind has:
//
//	alive     nothing: the lease is renewed, and whoever does not know all changes finds it out
//	ask       the process that is asked for its members, or no name for all
//	changed   topics, with those who have joined and left, and what Presence.Publish was given
//	members   the number of the part, 1 if it is the last, else 0, and topics with all members
//	gone      nothing: the process has no members any more
//
// Numbers are uvarints, as in encoding/binary, and a string is a number and as many bytes.
type note struct {
	kind   byte
	number uint64
	asked  string
	part   uint64
	last   bool
	topics []topicNote
}

const (
	noteAlive   = 'a'
	noteAsk     = 'q'
	noteChanged = 'c'
	noteMembers = 'm'
	noteGone    = 'g'
)

// topicNote is the part of a note about one topic.
type topicNote struct {
	topic                   string
	joined, left, published []string
}

func (n *note) encode() []byte {
	b := binary.AppendUvarint([]byte{n.kind}, n.number)
	switch n.kind {
	case noteAsk:
		return appendText(b, n.asked)
	case noteMembers:
		b = binary.AppendUvarint(b, n.part)
		if n.last {
			b = append(b, 1)
		} else {
			b = append(b, 0)
		}
	}
	for i := range n.topics {
		t := &n.topics[i]
		b = appendText(b, t.topic)
		for _, list := range [...][]string{t.joined, t.left, t.published} {
			b = binary.AppendUvarint(b, uint64(len(list)))
			for _, s := range list {
				b = appendText(b, s)
			}
		}
	}
	return b
}

func appendText(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

var errNote = errors.New("not a note")

// parseNote reads a note. Any client of the broker may have written it.
func parseNote(data []byte) (n note, err error) {
	if len(data) == 0 {
		return n, errNote
	}
	n.kind = data[0]
	r := noteReader{data: data[1:]}
	n.number = r.uvarint()
	switch n.kind {
	case noteAlive, noteGone:
	case noteAsk:
		n.asked = r.text()
	case noteMembers:
		n.part = r.uvarint()
		n.last = r.uvarint() != 0
		fallthrough
	case noteChanged:
		for len(r.data) > 0 && !r.bad {
			t := topicNote{topic: r.text()}
			t.joined, t.left, t.published = r.list(), r.list(), r.list()
			n.topics = append(n.topics, t)
		}
	default:
		return n, errNote
	}
	if r.bad || len(r.data) > 0 {
		return n, errNote
	}
	return n, nil
}

// noteReader reads the parts of a note.
type noteReader struct {
	data []byte
	bad  bool // it is too short
}

func (r *noteReader) uvarint() uint64 {
	v, n := binary.Uvarint(r.data)
	if n <= 0 {
		r.bad = true
		return 0
	}
	r.data = r.data[n:]
	return v
}

func (r *noteReader) text() string {
	n := r.uvarint()
	if r.bad || n > uint64(len(r.data)) {
		r.bad = true
		return ""
	}
	s := string(r.data[:n])
	r.data = r.data[n:]
	return s
}

func (r *noteReader) list() (all []string) {
	for n := r.uvarint(); n > 0 && !r.bad; n-- {
		all = append(all, r.text())
	}
	return all
}
