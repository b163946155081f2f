package accesslog

import (
	"maps"
	"slices"
	"time"

	"github.com/lwango/lwango/conn"
)

const BufferSize = bufferSize

var OpenFile = openLogFile

// SetStuck changes how long a write takes until no connection waits for it, and until the log says
// so. It returns what undoes that.
func SetStuck(after, said time.Duration) (undo func()) {
	wasAfter, wasSaid := stuckAfter, stuckLogAfter
	stuckAfter, stuckLogAfter = after, said
	return func() { stuckAfter, stuckLogAfter = wasAfter, wasSaid }
}

// LineOf makes lines of a format, in a buffer of its own.
func LineOf(format string) (func(*conn.AccessEntry) []byte, error) {
	line, err := parseFormat(format, nil)
	var b []byte
	var c clock
	return func(e *conn.AccessEntry) []byte { b = line.append(b[:0], e, &c); return b }, err
}

// Placeholders returns those of the formats of requests, and those of connections.
func Placeholders() (requests, connections []string) {
	return Names(), slices.Sorted(maps.Keys(connectionFields))
}

// LineOfConnection is LineOf for a [[stream]].
func LineOfConnection(format string) (func(*Connection) []byte, error) {
	line, err := parseConnectionFormat(format)
	return func(e *Connection) []byte {
		return lineFormat(func(b []byte, _ *entry, at *clock) []byte {
			return line(b, e, at)
		}).append(nil, nil, new(clock))
	}, err
}

// Room returns how many bytes the buffers of a log take.
func (c *Config) Room() (n int) {
	c.to.buffers.Range(func(_, v any) bool {
		b := v.(*lineBuffer)
		b.mu.Lock()
		defer b.mu.Unlock()
		n += cap(b.lines) + cap(b.spare)
		return true
	})
	return n
}

// Flush writes what has been logged so far, and returns when that is done.
func (c *Config) Flush() {
	for range 3 { // one waits in the channel: the writer has done what the first one asked for
		c.to.halfFull <- struct{}{}
	}
}

// LineOfKeys is LineOf for the keys json, if and statuses. The line of a request without one is
// empty.
func LineOfKeys(members map[string]string, condition string,
	statuses []string) (func(*conn.AccessEntry) []byte, error) {
	form, err := parseMembers(members, nil)
	if err != nil {
		return nil, err
	}
	chosen, err := parseStatuses(statuses)
	if err != nil {
		return nil, err
	}
	var only lineFormat
	if condition != "" {
		if only, err = parseCondition(condition, nil); err != nil {
			return nil, err
		}
	}
	line, c := onlyIf(form, only, chosen), new(clock)
	return func(e *conn.AccessEntry) []byte { return line.append(nil, e, c) }, nil
}
