package server

import (
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/loop"
)

// manager is the service manager that has started the process, if it wants to know how the server
// is (sd_notify(3)). A nil manager wants nothing.
type manager struct {
	socket *net.UnixConn
	log    *slog.Logger
	every  time.Duration // the server must say within this that it lives; 0: it need not
}

// findManager looks for what the environment says of a manager.
func findManager(log *slog.Logger) *manager {
	name := os.Getenv("NOTIFY_SOCKET") // of an abstract socket with an @ in front, as net has it, too
	if name == "" {
		return nil
	}
	socket, err := net.DialUnix("unixgram", nil, &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		log.Warn("the service manager cannot be told of the server's state", "error", err)
		return nil
	}
	m := &manager{socket: socket, log: log}
	pid := os.Getenv("WATCHDOG_PID") // sd_watchdog_enabled(3)
	if µs, err := strconv.ParseInt(os.Getenv("WATCHDOG_USEC"), 10, 64); err == nil && µs > 0 &&
		(pid == "" || pid == strconv.Itoa(os.Getpid())) {
		m.every = time.Duration(µs) * time.Microsecond
	}
	return m
}

// sendLimit is how long the server's goroutine waits for a manager that does not read, since one
// that has not heard of a start takes it for a failure. Requests do not wait for that. It is a
// variable only for tests.
var sendLimit = 3 * time.Second

// say tells the manager something. Any goroutine may call it.
func (m *manager) say(state string) {
	if m == nil {
		return
	}
	_ = m.socket.SetWriteDeadline(time.Now().Add(sendLimit))
	if _, err := m.socket.Write([]byte(state)); err != nil {
		m.log.Warn("the service manager cannot be told of the server's state", "state", state,
			"error", err)
	}
}

// ready says that clients can connect.
func (m *manager) ready() { m.say("READY=1") }

// reloading says that the server reads its configuration; ready follows.
func (m *manager) reloading() {
	if m == nil {
		return
	}
	var now unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &now) // cannot fail
	m.say(fmt.Sprintf("RELOADING=1\nMONOTONIC_USEC=%d", now.Nano()/1000))
}

// stopping says that the server stops, within the given time.
func (m *manager) stopping(within time.Duration) {
	m.say(fmt.Sprintf("STOPPING=1\nEXTEND_TIMEOUT_USEC=%d", (within + time.Second).Microseconds()))
}

// replaced says which process is the server from now on. systemd takes that from the process that
// it knows as the main one.
func (m *manager) replaced(by int) { m.say(fmt.Sprintf("MAINPID=%d", by)) }

func (m *manager) close() {
	if m != nil {
		m.socket.Close()
	}
}

// heartbeat ticks as often as alive must be called; nil if the manager does not ask for it.
func (m *manager) heartbeat() (ticks <-chan time.Time, stop func()) {
	if m == nil || m.every == 0 {
		return nil, func() {}
	}
	t := time.NewTicker(m.every / 2)
	return t.C, t.Stop
}

// alive tells the manager that the server lives, once each loop has taken a turn. A loop that a
// handler holds up does not, and in the end the manager starts the server anew.
func (s *server) alive() {
	manager := s.manager
	s.afterTurn(func(*loop.Loop) {}, func() { manager.say("WATCHDOG=1") })
}

// afterTurn calls f on each loop, and done on a goroutine once all have called it. If a loop has
// ended, which is an event of its own, it does not call done.
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
