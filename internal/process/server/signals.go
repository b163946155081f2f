package server

import (
	"os"
	"os/signal"
	"syscall"
)

// signals are the signals that a server obeys. Each kind has its own channel: in a common one,
// waiting reloads would leave no room for the signal that stops the server, and a signal without
// room is lost. A second signal of the same kind asks for nothing new while the first one waits, so
// there is room for one. Signals that stop the server are counted. The zero value delivers none.
type signals struct {
	stop                    chan os.Signal // SIGTERM and SIGINT
	reload, reopen, upgrade chan os.Signal // SIGHUP, SIGUSR1, SIGUSR2
}

func newSignals() *signals {
	one := func() chan os.Signal { return make(chan os.Signal, 1) }
	return &signals{stop: make(chan os.Signal, 8), reload: one(), reopen: one(), upgrade: one()}
}

// early catches the signals that would end the process before it can obey them. Until late is
// called, SIGTERM may end it.
func (s *signals) early() {
	signal.Notify(s.reload, syscall.SIGHUP)
	signal.Notify(s.reopen, syscall.SIGUSR1)
	signal.Notify(s.upgrade, syscall.SIGUSR2)
}

func (s *signals) late() { signal.Notify(s.stop, syscall.SIGTERM, syscall.SIGINT) }

func (s *signals) end() {
	for _, c := range []chan os.Signal{s.stop, s.reload, s.reopen, s.upgrade} {
		signal.Stop(c)
	}
}
