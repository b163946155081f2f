package server

import (
	"bytes"
	"log/slog"
	"math"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// accessLog writes a line for each answered request. A loop only forms lines, in a buffer of its
// own; one ordinary goroutine writes them to the file, because a write to a file can wait for a
// disk and a loop must not.
//
// A client can send requests faster than a disk takes their lines. So a connection has a share of
// the buffer: an eighth of what is free, so that many of them cannot fill it either. A connection
// that has used up its share waits until the buffer is emptied. When the disk is stuck, or clients
// make a connection for each request, the buffers fill up all the same. Then lines that find no
// room are dropped and counted. A line finds room if it takes an eighth of what is free at most: so
// the longest are dropped first, those of a client that tries to fill the log, and not the usual
// ones.
type accessLog struct {
	log    *slog.Logger
	format atomic.Pointer[lineFormat]

	buffers sync.Map // *loop.Loop -> *lineBuffer

	// Signals to the writer, of which one outstanding is enough.
	some chan struct{} // a buffer got its first line
	full chan struct{} // a buffer is half full
	next chan nextFile

	stop chan struct{}
	done chan struct{}
}

const (
	// bufferSize is the room for lines of one loop. At 100,000 requests a second and 200 bytes a
	// line it fills in 50 ms: a write takes far less, and a machine that is that busy has the
	// memory.
	bufferSize = 1 << 20
	// flushAfter is how long a line waits at most before it is in the file.
	flushAfter = time.Second
)

// lineBuffer is one loop's. Its lock is held only while a line is formed or two slices are
// exchanged.
type lineBuffer struct {
	mu      sync.Mutex
	lines   []byte
	spare   []byte // the writer's, while it writes
	round   uint8  // how often lines were taken out, for shares
	dropped int64
	clock   clock
}

// shareUnit is the unit of conn.Share, in bytes: 16 bits of these reach as far as bufferSize.
const shareUnit = 16

// openAccessLog starts the writer. Any loop may call LogRequest and HasRoom; the other methods are
// for one goroutine.
func openAccessLog(cfg *accessLogConfig, log *slog.Logger) (*accessLog, error) {
	f, err := openLogFile(cfg.Path)
	if err != nil {
		return nil, err
	}
	a := &accessLog{
		log:  log,
		some: make(chan struct{}, 1),
		full: make(chan struct{}, 1),
		next: make(chan nextFile, 1),
		stop: make(chan struct{}),
		done: make(chan struct{}),
	}
	a.format.Store(&cfg.line)
	go a.write(f)
	return a, nil
}

func openLogFile(path string) (*os.File, error) {
	// Readable by the owner and the group: a log has addresses and queries of people in it.
	return os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o640)
}

// nextFile is the file for all further lines, nil for none.
type nextFile struct {
	file  *os.File
	taken chan struct{} // closed when the old file has all its lines and is closed
}

// stuckWait is how long reopen and close wait for a file that does not take the last lines.
const stuckWait = 2 * time.Second

// reopen writes what was logged before to the old file, as a log rotation needs it, and goes on
// with f and the format of cfg. A nil f ends the logging; requests that are under way then leave no
// line.
func (a *accessLog) reopen(f *os.File, cfg *accessLogConfig) {
	next := nextFile{f, make(chan struct{})}
	select {
	case unused := <-a.next: // the writer has been stuck since the last time
		unused.file.Close() // nil is allowed here
	default:
	}
	a.next <- next
	select {
	case <-next.taken:
	case <-time.After(stuckWait):
		a.log.Warn("access log: the old file does not take its last lines, the new one must wait")
	}
	if cfg != nil {
		a.format.Store(&cfg.line)
	}
}

// close writes what is left and ends the writer. Lines that come later are lost.
func (a *accessLog) close() {
	close(a.stop)
	select {
	case <-a.done:
	case <-time.After(stuckWait):
		a.log.Error("access log: the last lines could not be written in time")
	}
}

// buffer returns the buffer of a loop.
func (a *accessLog) buffer(l *loop.Loop) *lineBuffer {
	v, ok := a.buffers.Load(l)
	if !ok {
		v, _ = a.buffers.LoadOrStore(l, &lineBuffer{lines: make([]byte, 0, 4096)})
	}
	return v.(*lineBuffer)
}

// HasRoom implements conn.AccessLog.
func (a *accessLog) HasRoom(l *loop.Loop, s conn.Share) bool {
	b := a.buffer(l)
	b.mu.Lock()
	defer b.mu.Unlock()
	return s.Round != b.round
}

// LogRequest implements conn.AccessLog: it forms the line of one request, and does not wait for the
// file.
func (a *accessLog) LogRequest(l *loop.Loop, e *conn.AccessEntry) bool {
	b := a.buffer(l)
	b.mu.Lock()
	before := len(b.lines)
	b.lines = (*a.format.Load())(b.lines, e, b.clock.text(e.Time.Local()))
	after := len(b.lines)
	if n := after - before; n > (bufferSize-before)/8 {
		b.lines = b.lines[:before]
		b.dropped++
		after = before
	}
	if e.Share.Round != b.round {
		e.Share = conn.Share{Round: b.round}
	}
	used := min(int(e.Share.Used)+(after-before+shareUnit-1)/shareUnit, math.MaxUint16)
	e.Share.Used = uint16(used)
	b.mu.Unlock()
	room := used*shareUnit <= (bufferSize-after)/8
	switch {
	case !room || before < bufferSize/2 && after >= bufferSize/2:
		notify(a.full)
	case before == 0:
		notify(a.some)
	}
	return room
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is on its way
	}
}

// write is the writer's goroutine. It sleeps while there is nothing to write: an idle server has no
// ticker.
func (a *accessLog) write(f *os.File) {
	defer close(a.done)
	w := &logWriter{file: f, log: a.log}
	var due <-chan time.Time
	for {
		select {
		case <-a.some:
			if due == nil {
				due = time.After(flushAfter)
			}
			continue
		case <-due:
			due = nil
		case <-a.full:
		case next := <-a.next:
			a.flush(w)
			w.close()
			w = &logWriter{file: next.file, log: a.log}
			close(next.taken)
			continue
		case <-a.stop:
			a.flush(w)
			w.close()
			return
		}
		a.flush(w)
	}
}

// flush writes what all loops have formed so far.
func (a *accessLog) flush(w *logWriter) {
	a.buffers.Range(func(_, v any) bool {
		b := v.(*lineBuffer)
		b.mu.Lock()
		lines, dropped := b.lines, b.dropped
		b.lines, b.dropped = b.spare[:0], 0
		if len(lines) > 0 {
			b.round++
		}
		b.mu.Unlock()

		w.write(lines)
		if dropped > 0 {
			a.log.Warn("access log: lines dropped, no room while the file was written",
				"lines", dropped)
		}

		b.mu.Lock()
		b.spare = lines
		b.mu.Unlock()
		return true
	})
}

// logWriter is the file, and whether writes fail. It logs the first failure and the recovery, not
// each line.
type logWriter struct {
	file *os.File // nil: lines are let go
	log  *slog.Logger
	lost int // lines since writing began to fail; 0: all is well
}

func (w *logWriter) write(lines []byte) {
	if len(lines) == 0 || w.file == nil {
		return
	}
	_, err := w.file.Write(lines)
	switch {
	case err != nil:
		if w.lost == 0 {
			w.log.Error("access log: cannot be written", "path", w.file.Name(), "error", err)
		}
		w.lost += bytes.Count(lines, []byte{'\n'})
	case w.lost > 0:
		w.log.Warn("access log: written again", "path", w.file.Name(), "lost", w.lost)
		w.lost = 0
	}
}

func (w *logWriter) close() {
	if w.file == nil {
		return
	}
	if err := w.file.Close(); err != nil && w.lost == 0 {
		w.log.Error("access log: cannot be closed", "path", w.file.Name(), "error", err)
	}
}
