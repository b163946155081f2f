package server

import (
	"log/slog"
	"os"
	"slices"
	"sync/atomic"
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
	ListenDebug  = listenDebug
	Start        = start
	VersionOf    = versionOf
)

const LogBufferSize = bufferSize

func LogLine(format string, e *conn.AccessEntry) string {
	var c clock
	line, err := parseFormat(format)
	if err != nil {
		panic(err)
	}
	return string(line.append(nil, e, &c))
}

// SetStandstill changes how long a loop may stand still after the grace period. It returns what
// undoes that.
func SetStandstill(d time.Duration) (undo func()) {
	was := standstill
	standstill = d
	return func() { standstill = was }
}

// SetLogStuck changes how long a write of an access log takes until no connection waits for it, and
// until the log says so. It returns what undoes that.
func SetLogStuck(after, said time.Duration) (undo func()) {
	wasAfter, wasSaid := stuckAfter, saidAfter
	stuckAfter, saidAfter = after, said
	return func() { stuckAfter, saidAfter = wasAfter, wasSaid }
}

// Room returns how many bytes the buffers of a log take.
func (a AccessLog) Room() (n int) {
	a.log.buffers.Range(func(_, v any) bool {
		b := v.(*lineBuffer)
		b.mu.Lock()
		defer b.mu.Unlock()
		n += cap(b.lines) + cap(b.spare)
		return true
	})
	return n
}

// AccessLog makes the log's methods visible.
type AccessLog struct{ *accessLogConfig }

func OpenAccessLog(path string, log *slog.Logger) (AccessLog, error) {
	to, err := openSink(path, log)
	if err != nil {
		return AccessLog{}, err
	}
	a := newAccessLog(path, to, new(atomic.Uint32), log)
	return AccessLog{&accessLogConfig{Path: path, line: appendCombined, log: a}}, nil
}

// Format gives the lines another format.
func (a AccessLog) Format(format string) {
	var err error
	if a.line, err = parseFormat(format); err != nil {
		panic(err)
	}
}

func (a AccessLog) Reopen(path string) error {
	to, err := openSink(path, a.log.log)
	if err == nil {
		<-a.log.reopen(to)
	}
	return err
}

// Flush writes what has been logged so far, and returns when that is done.
func (a AccessLog) Flush() {
	for range 3 { // one waits in the channel: the writer has done what the first one asked for
		a.log.full <- struct{}{}
	}
}

func (a AccessLog) Close() {
	a.log.end(nil)
	<-a.log.done
}

// ReloadAndLog is what a SIGHUP does.
func (s *server) ReloadAndLog() {
	before := s.config
	s.logReload(before, s.reload())
}

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

// Obtained has a value after certificates were obtained; then a server calls RenewCerts.
func (s *server) Obtained() <-chan struct{} { return s.obtained }

// Replace lets a server start as the new process of an upgrade does, and TakeOver says that it serves.
func (s *source) Replace(news *os.File) {
	s.handed = &handover{news: news, used: map[string]bool{}}
}

func (s *server) TakeOver() {
	s.before, s.source.handed = s.source.handed, nil
	s.takeOver(s.before)
}

// Obtaining reports whether the server obtains certificates.
func (s *server) Obtaining() bool { return s.obtainer != nil }

// Retain is what an old process does when the new one serves these addresses only.
func (s *server) Retain(serves []string) { s.retain(serves) }

// SetObtainPauses sets the pauses between attempts to obtain a certificate.
func SetObtainPauses(least, most time.Duration) { leastPause, mostPause = least, most }

// SetFinishLimit sets how long a server that stops waits for a certificate.
func SetFinishLimit(d time.Duration) { finishLimit = d }

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
	return func(e *conn.AccessEntry) { b = line.append(b[:0], e, &c) }
}

// SetUpgradeWait sets how long a new process may take.
func SetUpgradeWait(d time.Duration) { upgradeWait = d }

type Upgrade = upgrade

var Watched = watched

func (u *upgrade) HearOut() bool { return u.hearOut() }
func (u *upgrade) GiveUp() bool  { return u.giveUp() }
