package server

import (
	"bufio"
	"bytes"
	"os"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/handlers/cache"
)

// heirs tells the new process of an upgrade what the old one purges: its connections may still POST, or
// purge, and what that makes invalid the new one keeps. Where there is a broker, that does it. A nil
// heirs does nothing.
type heirs struct {
	store *cache.Store
	w     *os.File
	texts chan []byte
	lost  atomic.Bool // some texts were, so everything goes
	done  chan struct{}
	over  chan struct{} // closed when run has ended
}

// maxTold is how many purges the new process may be behind. Beyond that it drops all that it keeps.
const maxTold = 1024

// purgeAll is the text of a purge of everything.
const purgeAll = `{"all":true}`

// tellPurges begins to tell a new process, which gets r; both are nil if there is nothing to tell it.
func (s *server) tellPurges() (h *heirs, r *os.File, err error) {
	store := s.source.Cache
	if store == nil || s.disconnect != nil && s.source.Topics != nil { // see sharePurges
		return nil, nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	h = &heirs{store: store, w: w, texts: make(chan []byte, maxTold), done: make(chan struct{}),
		over: make(chan struct{})}
	store.Share(func(text []byte, _ bool) {
		select {
		case h.texts <- text:
		default:
			h.lost.Store(true)
		}
	})
	go h.run()
	return h, r, nil
}

// run writes what is to be told. It is a goroutine of its own, since the pipe may be full.
func (h *heirs) run() {
	defer close(h.over)
	defer h.w.Close()
	for {
		var text []byte
		select {
		case text = <-h.texts:
		case <-h.done:
			select {
			case text = <-h.texts:
			default:
				return
			}
		}
		if h.lost.Swap(false) {
			text = []byte(purgeAll)
		}
		if _, err := h.w.Write(append(bytes.Clone(text), '\n')); err != nil {
			return // the new process has ended
		}
	}
}

// tellFor is how long the end of this process may wait for the new one to read.
const tellFor = 100 * time.Millisecond

// end ends that, when all has been told.
func (h *heirs) end() {
	if h != nil {
		h.store.Share(nil)
		_ = h.w.SetWriteDeadline(time.Now().Add(tellFor))
		close(h.done)
		<-h.over
	}
}

// followPurges does what is purged in the process before, until that ends.
func (h *handover) followPurges(s *server) {
	if h == nil || h.purges == nil {
		return
	}
	store, own := s.source.Cache, s.own
	if store == nil {
		h.purges.Close()
		return
	}
	go func() {
		defer h.purges.Close()
		lines := bufio.NewReader(h.purges)
		for {
			text, err := lines.ReadBytes('\n')
			if err != nil {
				return
			}
			if err := store.Inherited(bytes.TrimSuffix(text, []byte{'\n'})); err != nil {
				own.Error("cache: a purge of the process before failed", "error", err)
			}
		}
	}()
}
