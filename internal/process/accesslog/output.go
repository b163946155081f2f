package accesslog

import (
	"bytes"
	"log/slog"
)

// Output is a file, syslog or journald for the lines of the server's own log. Its methods are for
// one goroutine.
type Output struct{ to sink }

// CheckOutput checks the key path of [error_log], for which it returns the path that OpenOutput
// takes. Relative paths begin in dir.
func CheckOutput(dir, path string) (string, error) { return parsePath(dir, path) }

// OpenOutput opens what path names. Trouble of the file goes to log.
func OpenOutput(path string, log *slog.Logger) (*Output, error) {
	to, err := openSink(path, errorLines, log)
	if err != nil {
		return nil, err
	}
	return &Output{to}, nil
}

// Write writes whole lines. After an error, n is where the lines begin that are lost, or as many
// lines before the end.
func (o *Output) Write(lines []byte) (n int, err error) {
	lost, err := o.to.write(lines, false)
	if err == nil {
		return len(lines), nil
	}
	n = len(lines)
	for range lost {
		n = bytes.LastIndexByte(lines[:n-1], '\n') + 1
	}
	return n, err
}

// Close closes it.
func (o *Output) Close() error { return o.to.close() }

// Discard closes an Output that was not used, and removes the file if OpenOutput has made it.
func (o *Output) Discard() { Sinks{"": o.to}.Close() }

// kind is what lines are about, for a daemon and for the log.
type kind struct {
	name     string // of the log
	msgID    string // of RFC 5424
	facility int    // of syslog(3)
	severity func(line []byte) int
}

var (
	accessLines = kind{"access log", "access", 23, func([]byte) int { return severityInfo }} // local7
	errorLines  = kind{"error log", "error", 3, severityOf}                                  // daemon
)

// Severities of syslog(3).
const (
	severityError   = 3
	severityWarning = 4
	severityInfo    = 6
	severityDebug   = 7
)

// severityOf returns the severity of a line of log/slog, as text or JSON, in which the level comes
// behind the time.
func severityOf(line []byte) int {
	const reach = 64 // of the time and the name of the level
	line = line[:min(len(line), reach)]
	_, level, ok := bytes.Cut(line, []byte(" level="))
	if !ok {
		_, level, _ = bytes.Cut(line, []byte(`,"level":"`))
	}
	switch {
	case bytes.HasPrefix(level, []byte("ERROR")):
		return severityError
	case bytes.HasPrefix(level, []byte("WARN")):
		return severityWarning
	case bytes.HasPrefix(level, []byte("DEBUG")):
		return severityDebug
	}
	return severityInfo
}
