// Package asynclog is the log of a program with event loops: a slog.Handler that never waits for
// the reader of the log. The caller's goroutine forms a line and puts it into a queue, from which
// one goroutine writes; a terminal or a pipe that stalls holds up that goroutine and no loop. Lines
// that find no room in the queue are dropped and counted.
//
// Clients cause many of the lines. So the text of each attribute is cut, by its length with
// escapes, of lines with the same message only some are logged each second, and all of them
// together take a bounded number of bytes a day; the others are counted. Lines about the program
// itself are exempt: see Priority.
//
// Lines are text, or JSON objects: see SetJSON. SetOutput changes where they go.
//
//	log.go      the queue and its goroutine
//	handler.go  the slog.Handler, which cuts long attributes
//	rate.go     how many lines of a message are logged
package asynclog

import (
	"bytes"
	"io"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

const (
	// room is for lines that wait to be written: a thousand or so.
	room = 256 << 10
	// priorityRoom is for priority lines beyond that.
	priorityRoom = 64 << 10
	// keptBuffer is the size of the largest buffer that is kept when all is written.
	keptBuffer = 16 << 10
)

// Log is the queue. Its methods are for any goroutine.
type Log struct {
	first  io.Writer     // of New
	wakeup chan struct{} // has an element when the goroutine has work
	done   chan struct{}

	mu      sync.Mutex
	lines   []byte
	dropped int // lines
	waiting []chan struct{}
	closed  bool
	to      io.Writer      // of lines from now on
	next    io.WriteCloser // takes the lines behind the first `earlier` bytes, if changes
	earlier int
	changes bool // SetOutput was called, and the goroutine has not made next to

	json  atomic.Bool   // what format forms
	level slog.LevelVar // lines below it are not formed
	lost  atomic.Int64  // lines, see Lost

	rate rates
}

// New makes a log that writes to w, on a goroutine that Close ends.
func New(w io.Writer) *Log {
	l := &Log{first: w, to: w, wakeup: make(chan struct{}, 1), done: make(chan struct{})}
	l.rate.lost = &l.lost
	l.rate.report = func(message string, n int) {
		Priority(l.Logger()).Warn("log: lines left out, too many of the kind",
			"kind", message, "lines", n)
	}
	go l.write()
	return l
}

// SetJSON makes each line a JSON object from now on, or text, as at first. Existing loggers change,
// too.
func (l *Log) SetJSON(on bool) { l.json.Store(on) }

// SetLevel leaves out lines below level from now on, of all loggers. At first it is slog.LevelInfo.
func (l *Log) SetLevel(level slog.Level) { l.level.Set(level) }

// SetOutput makes w take the lines that are logged from now on; nil: the writer of New takes them.
// The goroutine closes w when the lines of the next call of SetOutput begin; of several calls that
// it has not seen yet, the last one counts. What w does not take, by an error, goes to the writer
// of New. SetOutput does not wait.
func (l *Log) SetOutput(w io.WriteCloser) {
	l.mu.Lock()
	if l.ended() {
		old := l.exchange(w)
		l.mu.Unlock()
		closeOutput(old)
		return
	}
	var unused io.WriteCloser
	if l.changes { // the goroutine is held up since the last call
		unused = l.next
	} else {
		l.earlier = len(l.lines)
	}
	l.next, l.changes = w, true
	l.mu.Unlock()
	l.wake()
	closeOutput(unused)
}

// exchange makes w take the lines, and returns what has taken them; nil: the writer of New.
func (l *Log) exchange(w io.WriteCloser) (old io.WriteCloser) {
	if l.to != l.first {
		old = l.to.(io.WriteCloser)
	}
	if l.to = l.first; w != nil {
		l.to = w
	}
	return old
}

// closeOutput is called without the lock: a file of a network may take its time to close, and the
// loops must not wait for it.
func closeOutput(w io.WriteCloser) {
	if w != nil {
		_ = w.Close() // nothing is left to say it to
	}
}

// Lost returns how many lines were dropped or left out since New, for whatever reason.
func (l *Log) Lost() int64 { return l.lost.Load() }

// writer puts lines into the queue as long as there are less than size bytes in it.
type writer struct {
	log     *Log
	size    int
	limited bool // lines count in rates
}

// Write is called with one line.
func (w writer) Write(line []byte) (int, error) {
	l := w.log
	if w.limited {
		l.rate.spend(len(line))
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended() {
		return l.to.Write(line)
	}
	if l.closed || len(l.lines)+len(line) > w.size {
		l.dropped++
		l.lost.Add(1)
	} else {
		l.lines = append(l.lines, line...)
	}
	l.wake()
	return len(line), nil
}

// ended reports that the goroutine has ended.
func (l *Log) ended() bool {
	select {
	case <-l.done:
		return true
	default:
		return false
	}
}

func (l *Log) wake() {
	select {
	case l.wakeup <- struct{}{}:
	default: // it is on its way
	}
}

// write is the goroutine.
func (l *Log) write() {
	defer close(l.done)
	own := slog.New(&handler{log: l, lines: l.format(output{l}, maxLong)})
	var spare []byte
	lost := 0 // lines, not reported yet
	for range l.wakeup {
		for {
			l.mu.Lock()
			lines, dropped := l.lines, l.dropped
			next, changes, earlier := l.next, l.changes, len(l.lines)
			if changes {
				earlier = l.earlier
			}
			if len(lines) == 0 && dropped == 0 && !changes {
				for _, w := range l.waiting {
					close(w)
				}
				l.waiting = nil
				closed := l.closed
				l.mu.Unlock()
				if closed {
					return
				}
				break
			}
			l.lines, l.dropped = spare[:0], 0
			l.next, l.changes = nil, false
			l.mu.Unlock()

			failed := l.put(lines[:earlier])
			if changes {
				l.mu.Lock()
				old := l.exchange(next)
				l.mu.Unlock()
				closeOutput(old)
				failed += l.put(lines[earlier:])
			}
			l.lost.Add(int64(failed))
			lost += dropped + failed
			if failed == 0 && lost > 0 {
				own.Warn("log: lines dropped, the reader of the log has not taken them",
					"lines", lost)
				lost = 0
			}
			if spare = lines; cap(spare) > keptBuffer {
				spare = nil
			}
		}
	}
}

// put writes lines, on the goroutine, and returns how many were lost.
func (l *Log) put(lines []byte) (lost int) {
	if len(lines) == 0 {
		return 0
	}
	n, err := output{l}.Write(lines)
	if err == nil {
		return 0
	}
	return bytes.Count(lines[n:], []byte{'\n'})
}

// output is where the goroutine writes, which alone changes Log.to until it ends.
type output struct{ log *Log }

// Write writes to the present output, and to that of New what the present one does not take.
func (o output) Write(lines []byte) (n int, err error) {
	l := o.log
	if n, err = l.to.Write(lines); err != nil && l.to != l.first {
		var more int
		more, err = l.first.Write(lines[n:])
		n += more
	}
	return n, err
}

// Flush waits until all that was logged so far is written, at most d. It must not be called on a
// loop.
func (l *Log) Flush(d time.Duration) {
	l.rate.reportLeftOut()
	written := make(chan struct{})
	l.mu.Lock()
	if l.closed {
		close(written)
	} else {
		l.waiting = append(l.waiting, written)
	}
	l.mu.Unlock()
	l.wake()
	select {
	case <-written:
	case <-time.After(d):
	}
}

// Close writes what is left, waits at most d for that, and ends the goroutine. After that the
// goroutine that logs a line writes it; but if the reader has not taken all in time, Log drops it.
func (l *Log) Close(d time.Duration) {
	l.rate.reportLeftOut()
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.wake()
	select {
	case <-l.done:
	case <-time.After(d):
	}
}
