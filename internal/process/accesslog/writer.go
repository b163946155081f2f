package accesslog

import (
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// writer writes the lines of all tables [access_log] with one path. A loop only forms lines, in a
// buffer of its own; an ordinary goroutine writes them, because a write to a file can wait for a
// disk, and a loop must not.
//
// A client can send requests faster than a disk takes their lines. So a connection has a share of
// the buffer: an eighth of the free room, so that many connections cannot fill it either. A
// connection that has used up its share waits until the buffer is emptied, but not for a write that
// is stuck. When the disk is stuck, or clients make a connection for each request, the buffers fill
// up. Then lines that find no room are dropped and counted. A line finds room if it takes at most
// an eighth of the free room. So the longest lines are dropped first, which are those of a client
// that tries to fill the log.
type writer struct {
	path   string
	log    *slog.Logger
	shared *shared

	buffers sync.Map // *loop.Loop -> *lineBuffer

	// began is when the present write began, since epoch; 0: no write is under way.
	began       atomic.Int64
	stuckLogged atomic.Int64 // when a stuck write was last logged, since epoch; 0: never

	// fallback is the log for lines after the end, of requests that were under way.
	fallback atomic.Pointer[Config]

	// Signals to the writer. One of each kind may wait.
	firstLine chan struct{} // a buffer got its first line
	halfFull  chan struct{} // a buffer is half full
	next      chan nextSink

	stop chan struct{}
	done chan struct{}

	// The writer's goroutine alone uses these.
	to        sink
	unwritten int       // lines since writing began to fail; 0: all is well
	failed    time.Time // the last time
}

const (
	// bufferSize is the room for lines of one loop. At 100,000 requests a second and 200 bytes a
	// line it fills in 50 ms: a write takes far less, and a machine that is that busy has the
	// memory.
	bufferSize = 1 << 20
	// flushAfter is how long a line waits at most before it is in the file.
	flushAfter = time.Second
	// keptLines is what a buffer keeps of its room when there are few lines.
	keptLines = 64 << 10
)

// These are variables only for the tests.
var (
	// stuckAfter is how long a write takes before connections no longer wait for it.
	stuckAfter = time.Second
	// stuckLogAfter is how long a write takes before that is logged.
	stuckLogAfter = 10 * time.Second
)

// epoch is for times that do not jump when the system's clock is set.
var epoch = time.Now()

// lineBuffer has the lines of one loop. Its lock is held only while a line is formed or two slices
// are swapped.
type lineBuffer struct {
	mu      sync.Mutex
	lines   []byte
	spare   []byte // the writer's, while it writes
	dropped int64
	clock   clock
}

// shareUnit is the unit of conn.Share, in bytes: 16 bits of these reach as far as bufferSize.
const shareUnit = 16

// newWriter starts the goroutine. Any loop may call add; the other methods are for one goroutine.
func newWriter(path string, to sink, of *shared, log *slog.Logger) *writer {
	w := &writer{
		path:      path,
		log:       log,
		shared:    of,
		firstLine: make(chan struct{}, 1),
		halfFull:  make(chan struct{}, 1),
		next:      make(chan nextSink, 1),
		stop:      make(chan struct{}),
		done:      make(chan struct{}),
		to:        to,
	}
	go w.run()
	return w
}

// nextSink is a sink for all further lines.
type nextSink struct {
	to       sink
	switched chan struct{} // closed when the old one has all its lines and is closed
}

// reopen writes earlier lines to the old file, as a log rotation needs it, and goes on with another
// sink. It does not wait; switched is closed when the old file has all its lines.
func (w *writer) reopen(to sink) (taken <-chan struct{}) {
	next := nextSink{to, make(chan struct{})}
	select {
	case unused := <-w.next: // the writer has been stuck since the last time
		_ = unused.to.close()
	default:
	}
	w.next <- next
	return next.switched
}

// end makes the writer write the remaining lines and end; then done is closed. Later lines go to
// fallback, or are lost if that is nil.
func (w *writer) end(fallback *Config) {
	if fallback == nil {
		fallback = new(Config)
	}
	w.fallback.Store(fallback)
	close(w.stop)
}

// isDone reports whether the writer has written its last line.
func (w *writer) isDone() bool {
	select {
	case <-w.done:
		return true
	default:
		return false
	}
}

// buffer returns the buffer of a loop.
func (w *writer) buffer(l *loop.Loop) *lineBuffer {
	v, ok := w.buffers.Load(l)
	if !ok {
		v, _ = w.buffers.LoadOrStore(l, &lineBuffer{lines: make([]byte, 0, 4096)})
	}
	return v.(*lineBuffer)
}

// add forms the line of one request, and does not wait for the file. It reports whether there is
// room for more of the connection: see conn.AccessLog.
func (w *writer) add(l *loop.Loop, e *conn.AccessEntry, line lineFormat) bool {
	b := w.buffer(l)
	b.mu.Lock()
	if fallback := w.fallback.Load(); fallback != nil {
		b.mu.Unlock()
		// The line of a connection does not fit into the other log.
		return fallback.to == nil || e.Time.IsZero() || fallback.to.add(l, e, fallback.line)
	}
	before := len(b.lines)
	b.lines = line.append(b.lines, e, &b.clock)
	after := len(b.lines)
	if after == before { // the request is to have no line
		b.mu.Unlock()
		return true
	}
	if n := after - before; n > (bufferSize-before)/8 {
		b.lines = b.lines[:before]
		b.dropped++
		after = before
	}
	b.mu.Unlock()
	if generation := uint8(w.shared.generation.Load()); e.Share.Generation != generation {
		e.Share = conn.Share{Generation: generation}
	}
	used := min(int(e.Share.Used)+(after-before+shareUnit-1)/shareUnit, math.MaxUint16)
	e.Share.Used = uint16(used)
	room := used*shareUnit <= (bufferSize-after)/8 || w.stuckFor() >= stuckAfter
	switch {
	case !room || before < bufferSize/2 && after >= bufferSize/2:
		notify(w.halfFull)
	case before == 0:
		notify(w.firstLine)
	}
	return room
}

// hasRoom reports whether a connection with that share may have more requests.
func (w *writer) hasRoom(s conn.Share) bool {
	return s.Generation != uint8(w.shared.generation.Load()) || w.stuckFor() >= stuckAfter
}

// stuckFor returns for how long the writer has been writing, 0 if it does not write.
func (w *writer) stuckFor() time.Duration {
	if began := w.began.Load(); began != 0 {
		return time.Since(epoch) - time.Duration(began)
	}
	return 0
}

// droppedLines returns how many lines have been dropped since the last write.
func (w *writer) droppedLines() (n int64) {
	w.buffers.Range(func(_, v any) bool {
		b := v.(*lineBuffer)
		b.mu.Lock()
		n += b.dropped
		b.mu.Unlock()
		return true
	})
	return n
}

func notify(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // one is on its way
	}
}

// run is the writer's goroutine. It sleeps while there is nothing to write: an idle server has no
// ticker.
func (w *writer) run() {
	defer close(w.done)
	var due <-chan time.Time
	for {
		select {
		case <-w.firstLine:
			if due == nil {
				due = time.After(flushAfter)
			}
			continue
		case <-due:
			due = nil
		case <-w.halfFull:
		case next := <-w.next:
			w.switchTo(next)
			continue
		case <-w.stop:
			select {
			case next := <-w.next:
				w.switchTo(next)
			default:
			}
			w.flush(false)
			w.close()
			return
		}
		w.flush(false)
	}
}

// switchTo goes on with another sink. Lost lines are logged when it takes lines.
func (w *writer) switchTo(next nextSink) {
	w.flush(true)
	w.closeSink()
	w.to = next.to
	close(next.switched)
}

// flush writes the lines that all loops have formed so far. See sink for last.
func (w *writer) flush(last bool) {
	w.buffers.Range(func(_, v any) bool {
		b := v.(*lineBuffer)
		b.mu.Lock()
		lines, dropped := b.lines, b.dropped
		b.lines, b.dropped = b.spare[:0], 0
		b.mu.Unlock()
		if len(lines) > 0 {
			w.shared.generation.Add(1)
			w.timed(func() { w.write(lines, last) })
		}
		if dropped > 0 {
			w.shared.lost.Add(dropped)
			w.log.Warn("access log: lines dropped, no room while the file was written",
				"path", w.path, "lines", dropped)
		}

		if cap(lines) > keptLines && len(lines) < keptLines {
			lines = nil // a burst is over
		}
		b.mu.Lock()
		b.spare = lines
		b.mu.Unlock()
		return true
	})
}

// timed calls write, and logs if that takes long.
func (w *writer) timed(write func()) {
	began := max(int64(time.Since(epoch)), 1)
	w.began.Store(began)
	say := time.AfterFunc(stuckLogAfter, func() { w.logStuck(began) })
	write()
	w.began.Store(0)
	say.Stop()
}

// logStuck logs, once a minute at most, that the write that began at began is still under way.
func (w *writer) logStuck(began int64) {
	if w.began.Load() != began {
		return
	}
	now := int64(time.Since(epoch))
	if said := w.stuckLogged.Load(); said == 0 || now-said >= int64(time.Minute) {
		w.stuckLogged.Store(now)
		w.log.Error("access log: a write is stuck, lines that find no room are dropped",
			"path", w.path, "for", w.stuckFor().Round(time.Second), "dropped", w.droppedLines())
	}
	time.AfterFunc(time.Minute, func() { w.logStuck(began) })
}

// write writes lines. It logs the first failure and the recovery, not each line.
func (w *writer) write(lines []byte, last bool) {
	lost, err := w.to.write(lines, last)
	if err != nil {
		if w.unwritten == 0 {
			w.log.Error("access log: cannot be written", "path", w.path, "error", err)
		}
		w.shared.lost.Add(int64(lost))
		w.unwritten, w.failed = w.unwritten+max(lost, 1), time.Now()
	} else if w.unwritten > 0 && time.Since(w.failed) >= w.to.recoveryTime() {
		w.log.Warn("access log: written again", "path", w.path, "lost", w.unwritten)
		w.unwritten = 0
	}
}

func (w *writer) close() {
	if w.unwritten > 0 {
		w.log.Warn("access log: lines lost, it could not be written", "path", w.path, "lost",
			w.unwritten)
	}
	w.closeSink()
}

func (w *writer) closeSink() {
	if err := w.to.close(); err != nil && w.unwritten == 0 {
		w.log.Error("access log: cannot be closed", "path", w.path, "error", err)
	}
}
