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

// heirs tells the new process of an upgrade what the old one purges: its connections may still
// POST, or purge, and what that makes invalid the new one keeps. Where there is a broker, that does
// it. A nil heirs does nothing.
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

// tellPurges begins to tell a new process, which gets r; both are nil if there is nothing to tell
// it.
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

// follower does what is purged in the processes before. Each passes on what it hears of those
// before it. So this one reads the pipe of the last of them, and the pipe of an earlier one when
// all that came after that one have ended.
type follower struct {
	store *cache.Store
	log   *slog.Logger
	over  chan struct{} // closed when run has ended

	mu    sync.Mutex
	pipes []*os.File // the first one is read
	ends  bool       // this process does
}

// followPurges begins to do what is purged in the processes before.
func (h *handover) followPurges(s *server) *follower {
	if h == nil || len(h.purges) == 0 {
		return nil
	}
	if s.source.Cache == nil {
		for _, p := range h.purges {
			p.Close()
		}
		return nil
	}
	f := &follower{store: s.source.Cache, log: s.own, over: make(chan struct{}), pipes: h.purges}
	go f.run()
	return f
}

func (f *follower) run() {
	defer close(f.over)
	for p := f.first(); p != nil && f.follow(p); p = f.first() {
		f.mu.Lock()
		f.pipes = f.pipes[1:]
		f.mu.Unlock()
		p.Close()
	}
}

// first returns the pipe that is to be read; nil: none.
func (f *follower) first() *os.File {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.ends || len(f.pipes) == 0 {
		return nil
	}
	return f.pipes[0]
}

// follow does what comes by p, and reports whether that has come to its end. Otherwise this process
// ends, and the one behind it goes on to read p: it finds the begin of a line there.
func (f *follower) follow(p *os.File) (ended bool) {
	lines := bufio.NewReader(p)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 && errors.Is(err, os.ErrDeadlineExceeded) { // the rest of it is on its way
			var rest []byte
			_ = p.SetReadDeadline(time.Now().Add(tellFor))
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

// hand returns duplicates of the pipes, for the next process; the caller closes them.
func (f *follower) hand() (fds []int, err error) {
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

// end ends that, when all has been done that was read.
func (f *follower) end() {
	if f == nil {
		return
	}
	f.mu.Lock()
	f.ends = true
	if len(f.pipes) > 0 {
		_ = f.pipes[0].SetReadDeadline(time.Now())
	}
	f.mu.Unlock()
	<-f.over
}
