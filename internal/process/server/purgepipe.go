package server

import (
	"bufio"
	"bytes"
	"cmp"
	"errors"
	"log/slog"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/process/sockets"
)

// purgeSender sends the purges of the old process to the new one, during an upgrade: connections of
// the old one may still POST, or purge, and the new one has the cache. Where there is a broker, the
// broker does that. A nil purgeSender does nothing.
type purgeSender struct {
	store      *cache.Store
	w          *os.File
	texts      chan []byte
	overflowed atomic.Bool // texts found no room, so everything is to be purged
	done       chan struct{}
	ended      chan struct{} // closed when run has ended
}

// maxQueuedPurges is how many purges wait at most for the new process. Beyond that, it purges
// everything.
const maxQueuedPurges = 1024

// purgeAll is the text of a purge of everything.
const purgeAll = `{"all":true}`

// sendPurges begins to send purges to a new process, which gets r. Both are nil if there is no
// cache.
func (s *server) sendPurges() (h *purgeSender, r *os.File, err error) {
	store := s.source.Cache
	if store == nil || s.disconnect != nil && s.source.Topics != nil { // see sharePurges
		return nil, nil, nil
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	h = &purgeSender{store: store, w: w, texts: make(chan []byte, maxQueuedPurges),
		done: make(chan struct{}), ended: make(chan struct{})}
	store.Share(func(text []byte, _ bool) {
		select {
		case h.texts <- text:
		default:
			h.overflowed.Store(true)
		}
	})
	go h.run()
	return h, r, nil
}

// run writes the purges. It is a goroutine of its own, since the pipe may be full.
func (h *purgeSender) run() {
	defer close(h.ended)
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
		if h.overflowed.Swap(false) {
			text = []byte(purgeAll)
		}
		if _, err := h.w.Write(append(bytes.Clone(text), '\n')); err != nil {
			return // the new process has ended
		}
	}
}

// purgeTimeout is how long this process waits at its end for the new one to read.
const purgeTimeout = 100 * time.Millisecond

// end ends the sending, once all purges are written.
func (h *purgeSender) end() {
	if h != nil {
		h.store.Share(nil)
		_ = h.w.SetWriteDeadline(time.Now().Add(purgeTimeout))
		close(h.done)
		<-h.ended
	}
}

// purgeReceiver applies the purges of the processes before this one. Each process passes on the
// purges that it receives. So this process reads the pipe of the last one before it, and the pipe
// of an earlier one once all later ones have ended.
type purgeReceiver struct {
	store *cache.Store
	log   *slog.Logger
	ended chan struct{} // closed when run has ended

	mu     sync.Mutex
	pipes  []*os.File // the first one is read
	ending bool       // this process ends
}

// receivePurges begins to apply the purges of the processes before this one.
func (h *handover) receivePurges(s *server) *purgeReceiver {
	if h == nil || len(h.purges) == 0 {
		return nil
	}
	if s.source.Cache == nil {
		for _, p := range h.purges {
			p.Close()
		}
		return nil
	}
	f := &purgeReceiver{store: s.source.Cache, log: s.own, ended: make(chan struct{}), pipes: h.purges}
	go f.run()
	return f
}

func (f *purgeReceiver) run() {
	defer close(f.ended)
	for p := f.first(); p != nil && f.receive(p); p = f.first() {
		f.mu.Lock()
		f.pipes = f.pipes[1:]
		f.mu.Unlock()
		p.Close()
	}
}

// first returns the pipe that is to be read, or nil.
func (f *purgeReceiver) first() *os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ending || len(f.pipes) == 0 {
		return nil
	}
	return f.pipes[0]
}

// receive applies the purges that arrive by p, and reports whether p has come to its end. Otherwise
// this process ends, and the next one goes on to read p at the beginning of a line.
func (f *purgeReceiver) receive(p *os.File) (ended bool) {
	lines := bufio.NewReader(p)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && errors.Is(err, os.ErrDeadlineExceeded) { // the rest of it is on its way
			var rest []byte
			_ = p.SetReadDeadline(time.Now().Add(purgeTimeout))
			rest, err = lines.ReadBytes('\n')
			line = append(line, rest...)
			_ = p.SetReadDeadline(time.Now())
		}
		if err != nil {
			return !errors.Is(err, os.ErrDeadlineExceeded)
		}
		if err := f.store.Inherited(bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
			f.log.Error("cache: a purge of the process before failed", "error", err)
		}
	}
}

// duplicatePipes returns duplicates of the pipes, for the next process; the caller closes them.
func (f *purgeReceiver) duplicatePipes() (fds []int, err error) {
	if f == nil {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range f.pipes {
		c, err := p.SyscallConn() // Fd would have reads wait in the kernel
		if err == nil {
			cerr := c.Control(func(fd uintptr) {
				var d int
				if d, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 0); err == nil {
					fds = append(fds, d)
				}
			})
			err = cmp.Or(cerr, err)
		}
		if err != nil {
			sockets.CloseAll(fds)
			return nil, err
		}
	}
	return fds, nil
}

// end ends the receiving, once all purges that were read are applied.
func (f *purgeReceiver) end() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.ending = true
	if len(f.pipes) > 0 {
		_ = f.pipes[0].SetReadDeadline(time.Now())
	}
	f.mu.Unlock()
	<-f.ended
}
