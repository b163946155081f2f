package server

import (
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"time"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/process/config"
)

type Server = server

// Timed answers with what begin writes until end is called, with pieces that a client has to take
// in wait.
func Timed(wait time.Duration, begin func(io.Writer) error, end func()) http.HandlerFunc {
	pieceTimeout = wait
	return timed(time.Millisecond, begin, end)
}

// SetStandstill changes how long a loop may stand still after the grace period. It returns what
// undoes that.
func SetStandstill(d time.Duration) (undo func()) {
	was := stuckLimit
	stuckLimit = d
	return func() { stuckLimit = was }
}

// ReloadAndLog is what a SIGHUP does.
func (s *server) ReloadAndLog() {
	before := s.config
	s.logReload(before, s.reload())
}

func (s *server) Reload() error { return s.reload() }
func (s *server) Stop()         { s.stop() }
func (s *server) Wait() error   { return s.wait() }

// Addresses returns the addresses that are listened to, with the ports that the kernel chose,
// sorted.
func (s *server) Addresses() []string {
	var all []string
	for _, l := range s.listeners {
		all = append(all, l.socket.Display)
	}
	slices.Sort(all)
	return all
}

// RenewCerts is what a server does once a minute.
func (s *server) RenewCerts(now time.Time) { s.renewCerts(now) }

// Obtained has a value after certificates were obtained; then a server calls RenewCerts.
func (s *server) Obtained() <-chan struct{} { return s.obtainer.News }

func Start(s config.Source, c *config.Config) (*Server, error) { return start(s, c, nil) }

// StartBehind starts a server as the new process of an upgrade does, and TakeOver says that it
// serves.
func StartBehind(news *os.File, s config.Source, c *config.Config) (*Server, error) {
	return start(s, c, &handover{messages: news, used: map[string]bool{}})
}

func (s *server) TakeOver() {
	handed := s.handed
	s.handed = nil
	s.takeOver(handed)
}

// Obtaining reports whether the server obtains certificates.
func (s *server) Obtaining() bool { return s.obtainer.Busy() }

// LeaveListeners is what an old process does when the new one serves none of its addresses.
func (s *server) LeaveListeners() { s.leaveListeners(message{}) }

// SetUpgradeWait sets how long a new process may take.
func SetUpgradeWait(d time.Duration) { upgradeWait = d }

// SetSendLimit sets how long the service manager is waited for; restore is for after the test.
func SetSendLimit(d time.Duration) (restore func()) {
	old := sendLimit
	sendLimit = d
	return func() { sendLimit = old }
}

// Memory gives back what is not used.
type Memory = memoryReleaser

func (m *memoryReleaser) Look(open int, now time.Time) { m.check(open, now) }

// PurgeReceiver applies the purges of the processes before this one.
type PurgeReceiver = purgeReceiver

// ReceivePurges begins to do what comes by the pipes.
func ReceivePurges(store *cache.Store, log *slog.Logger, pipes ...*os.File) *PurgeReceiver {
	f := &purgeReceiver{store: store, log: log, ended: make(chan struct{}), pipes: pipes}
	go f.run()
	return f
}

func (f *purgeReceiver) End() { f.end() }
