package server

import (
	"log/slog"
	"slices"
	"time"

	"github.com/lwango/lwango/conn"
)

type (
	Config = config
	Server = server
	Source = source
	Places = places
)

var (
	ParseAddress = parseAddress
	Start        = start
)

const LogBufferSize = bufferSize

func LogLine(format string, e *conn.AccessEntry) string {
	var c clock
	line, err := parseFormat(format)
	if err != nil {
		panic(err)
	}
	return string(line(nil, e, c.text(e.Time)))
}

// AccessLog makes the log's methods visible.
type AccessLog struct{ *accessLog }

func OpenAccessLog(path string, log *slog.Logger) (AccessLog, error) {
	a, err := openAccessLog(&accessLogConfig{Path: path, line: appendCombined}, log)
	return AccessLog{a}, err
}

func (a AccessLog) Reopen(path string) error {
	f, err := openLogFile(path)
	if err == nil {
		a.reopen(f, nil)
	}
	return err
}

func (a AccessLog) Close() { a.close() }

// ReloadAndLog is what a SIGHUP does.
func (s *server) ReloadAndLog() { s.logReload(s.reload()) }

func (s source) Load() (*config, error)                   { return s.load() }
func (s source) Parse(name, text string) (*config, error) { return s.parse(name, text) }

func (s *server) Reload() error { return s.reload() }
func (s *server) Stop()         { s.stop() }
func (s *server) Wait() error   { return s.wait() }

// Addresses returns the addresses that are listened to, with the ports that the kernel chose,
// sorted.
func (s *server) Addresses() []string {
	var all []string
	for _, l := range s.listeners {
		all = append(all, l.socket.shown)
	}
	slices.Sort(all)
	return all
}

// Held returns how many descriptors the handlers hold, and how many each loop holds besides.
func (c *config) Held() (all, byLoop int) { return c.held, c.heldByLoop }

// Background returns how many functions run beside the requests.
func (c *config) Background() int { return len(c.background) }

// RenewCerts is what a server does once a minute.
func (s *server) RenewCerts(now time.Time) { s.renewCerts(now) }

// ParseFormat says what is wrong with a format of the access log.
func ParseFormat(format string) error {
	_, err := parseFormat(format)
	return err
}

// LineOf makes lines of a format, in a buffer of its own.
func LineOf(format string) func(e *conn.AccessEntry) {
	line, err := parseFormat(format)
	if err != nil {
		panic(err)
	}
	var b []byte
	var c clock
	return func(e *conn.AccessEntry) { b = line(b[:0], e, c.text(e.Time)) }
}
