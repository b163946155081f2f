package server

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/loop"
)

// serviceManager is the service manager that has started the process, if it takes notifications
// (sd_notify(3)). A nil serviceManager takes none.
type serviceManager struct {
	socket *net.UnixConn
	log    *slog.Logger
	every  time.Duration // the server must send WATCHDOG=1 within this time; 0: it need not
}

// findManager finds the service manager by the environment.
func findManager(log *slog.Logger) *serviceManager {
	name := os.Getenv("NOTIFY_SOCKET") // an abstract socket begins with @, as in package net
	if name == "" {
		return nil
	}
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		log.Warn("the service manager cannot be told of the server's state", "error", err)
		return nil
	}
	m := &serviceManager{socket: socket, log: log}
	pid := os.Getenv("WATCHDOG_PID") // sd_watchdog_enabled(3)
	if µs, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && µs > 0 &&
		(pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.every = time.Duration(µs) * time.Microsecond
	}
	return m
}

// sendLimit is how long the server's goroutine waits for a manager that does not read, since a
// manager that misses READY=1 takes the start for a failure. Requests do not wait for that. It is a
// variable only for tests.
var sendLimit = 3 * time.Second

// notify sends a state to the manager. Any goroutine may call it.
func (m *serviceManager) notify(state string) {
	if m == nil {
		return
	}
	_ = m.socket.SetWriteDeadline(time.Now().Add(sendLimit))
	if _, err := m.socket.Write([]byte(state)); err != nil {
		m.log.Warn("the service manager cannot be told of the server's state", "state", state,
			"error", err)
	}
}

// ready says that clients can connect. state is a line for people, as in all that follow.
func (m *serviceManager) ready(state string) { m.notify("READY=1\n" + statusLine(state)) }

// statusLine returns an assignment of STATUS, which `systemctl status` shows.
func statusLine(state string) string {
	const longest = 250 // of an error
	state = strings.ReplaceAll(state, "\n", " ")
	return "STATUS=" + strings.ToValidUTF8(state[:min(len(state), longest)], "")
}

// reloading says that the server reads its configuration; ready follows.
func (m *serviceManager) reloading() {
	if m == nil {
		return
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	m.notify(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000))
}

// stopping says that the server stops, within the given time.
func (m *serviceManager) stopping(within time.Duration, state string) {
	m.notify(fmt.Sprintf("STOPPING=1\nEXTEND_TIMEOUT_USEC=%d\n%s",
		(within + time.Second).Microseconds(), statusLine(state)))
}

// replaced sends the process ID of the new server. systemd accepts that from the main process of
// the service.
func (m *serviceManager) replaced(by int, state string) {
	m.notify(fmt.Sprintf("MAINPID=%d\n%s", by, statusLine(state)))
}

func (m *serviceManager) close() {
	if m != nil {
		m.socket.Close()
	}
}

// heartbeat ticks as often as alive must be called; nil if the manager does not ask for it.
func (m *serviceManager) heartbeat() (ticks <-chan time.Time, stop func()) {
	if m == nil || m.every == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(m.every / 2)
	return t.C, t.Stop
}

// alive sends WATCHDOG=1 once each loop has taken a turn. If a handler blocks a loop, the manager
// starts the server anew in the end.
func (s *server) alive() {
	manager := s.manager
	s.afterTurn(func(*loop.Loop) {}, func() { manager.notify("WATCHDOG=1") })
}

// afterTurn calls f on each loop and then, on a goroutine, done. If a loop has ended, which is an
// event of its own, it does not call done.
func (s *server) afterTurn(f func(*loop.Loop), done func()) {
	var left atomic.Int32
	left.Store(int32(len(s.loops)))
	for _, l := range s.loops {
		_ = l.Post(func() {
			if f(l); left.Add(-1) == 0 {
				go done()
			}
		})
	}
}
