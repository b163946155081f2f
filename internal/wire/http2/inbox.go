package http2

import (
	"math/bits"
	"sync"
)

// Inbox is content of a stream that has come and was not read yet. It takes no more memory than
// four times its content, or 8 KiB, and gives that back as soon as all is read: for a body that is
// read as it comes, the same few blocks serve all streams. The zero value is empty.
type Inbox struct {
	b    []byte // b[r:] was not read yet
	r    int
	from *block // which b is a part of; nil: b has memory of its own
}

// block is memory that Inboxes use one after the other.
type block struct{ b []byte }

const (
	leastBlock = 8 << 10
	// keptInbox is the largest memory that an empty Inbox keeps.
	keptInbox = 4 << 10
)

// blocks are of leastBlock bytes, twice as many and so on. Larger ones are not used again.
var blocks [6]sync.Pool

// Len returns how many bytes were not read yet.
func (i *Inbox) Len() int { return len(i.b) - i.r }

// Held returns how much memory holds them.
func (i *Inbox) Held() int { return cap(i.b) }

// Add adds content.
func (i *Inbox) Add(p []byte) {
	if len(p) > cap(i.b)-len(i.b) {
		i.makeRoom(len(p))
	}
	i.b = append(i.b, p...)
}

func (i *Inbox) makeRoom(n int) {
	unread := i.b[i.r:]
	if i.r > 0 { // a slow reader may never empty it
		i.b, i.r = i.b[:copy(i.b, unread)], 0
	}
	need := len(i.b) + n
	if need <= cap(i.b) || need <= keptInbox {
		return
	}
	class := max(bits.Len(uint(need-1))-bits.Len(leastBlock-1), 0)
	var to *block
	if class < len(blocks) {
		to, _ = blocks[class].Get().(*block)
	}
	if to == nil {
		to = &block{make([]byte, leastBlock<<class)}
	}
	b := append(to.b[:0], i.b...)
	i.Reset()
	i.b, i.from = b, to
}

// Read moves content to p, and returns how much.
func (i *Inbox) Read(p []byte) int {
	n := copy(p, i.b[i.r:])
	switch i.r += n; {
	case i.r == len(i.b):
		i.Reset()
	case i.from != nil && cap(i.b) > leastBlock && i.Len() < cap(i.b)/4: // its reader may stop here
		var rest Inbox
		rest.Add(i.b[i.r:])
		i.Reset()
		*i = rest
	}
	return n
}

// Reset drops what was not read.
func (i *Inbox) Reset() {
	if i.from != nil {
		if class := bits.Len(uint(len(i.from.b)-1)) - bits.Len(leastBlock-1); class < len(blocks) {
			blocks[class].Put(i.from)
		}
		i.b, i.from = nil, nil
	}
	i.b, i.r = i.b[:0], 0
}

// Trim gives up the memory of an empty Inbox that is larger than most.
func (i *Inbox) Trim(most int) {
	if i.Len() == 0 && cap(i.b) > most {
		i.Reset()
		i.b = nil
	}
}
