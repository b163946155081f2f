package fcgitest

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// A Script says what happens on a connection, which is closed when the script returns.
type Script func(c *Conn)

// An Option changes how an Upstream listens.
type Option func(*Upstream)

// Workers limits the connections that are served at once to n. As with PHP-FPM, the others are not
// accepted.
func Workers(n int) Option { return func(u *Upstream) { u.workers = n } }

// Backlog sets how many connections the kernel holds that are not accepted yet. It holds one more
// than n.
func Backlog(n int) Option { return func(u *Upstream) { u.backlog = n } }

// An Upstream is an application that listens.
type Upstream struct {
	Address string // as in a configuration: unix:/path or host:port

	t        testing.TB
	script   Script
	workers  int
	backlog  int
	listener net.Listener
	running  sync.WaitGroup

	mu       sync.Mutex
	changed  *sync.Cond
	open     map[*Conn]bool
	accepted int
	requests []*Request
	stopped  bool
}

// Start listens on a new address, where network is "unix", "tcp" or "tcp6", and runs script for
// each connection until the test ends.
func Start(t testing.TB, network string, script Script, options ...Option) *Upstream {
	t.Helper()
	u := &Upstream{t: t, script: script, backlog: 511, open: map[*Conn]bool{}}
	u.changed = sync.NewCond(&u.mu)
	for _, o := range options {
		o(u)
	}
	if err := u.listen(network); err != nil {
		t.Fatal("fcgitest: ", err)
	}
	t.Cleanup(u.Stop)
	for range max(u.workers, 1) {
		u.running.Go(u.accept)
	}
	return u
}

// listen makes the socket itself, since package net does not let the caller choose the backlog.
func (u *Upstream) listen(network string) error {
	var family int
	var sa syscall.Sockaddr
	switch network {
	case "unix":
		dir, err := os.MkdirTemp("", "fcgi") // a socket's path has to be short, t.TempDir is not
		if err != nil {
			return err
		}
		u.t.Cleanup(func() { os.RemoveAll(dir) })
		path := filepath.Join(dir, "s")
		family, sa, u.Address = syscall.AF_UNIX, &syscall.SockaddrUnix{Name: path}, "unix:"+path
	case "tcp", "tcp6":
		host := "127.0.0.1:0"
		if network == "tcp6" {
			host = "[::1]:0"
		}
		addr, err := net.ResolveTCPAddr("tcp", host)
		if err != nil {
			return err
		}
		if ip := addr.IP.To4(); ip != nil {
			family, sa = syscall.AF_INET, &syscall.SockaddrInet4{Port: addr.Port, Addr: [4]byte(ip)}
		} else {
			family, sa = syscall.AF_INET6, &syscall.SockaddrInet6{Port: addr.Port,
				Addr: [16]byte(addr.IP)}
		}
	default:
		return fmt.Errorf("network %q", network)
	}
	fd, err := syscall.Socket(family,
		syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), "fcgitest")
	defer f.Close()
	if err := syscall.Bind(fd, sa); err != nil {
		return err
	}
	if err := syscall.Listen(fd, u.backlog); err != nil {
		return err
	}
	if u.listener, err = net.FileListener(f); err != nil {
		return err
	}
	if family != syscall.AF_UNIX {
		u.Address = u.listener.Addr().String()
	}
	return nil
}

// accept serves connections. With a number of workers, each of these serves one at a time.
func (u *Upstream) accept() {
	for {
		nc, err := u.listener.Accept()
		if err != nil {
			return
		}
		c := &Conn{up: u, nc: nc, cut: -1}
		c.in = decoder{from: nc}
		u.mu.Lock()
		u.accepted++
		c.Number = u.accepted
		u.open[c] = true
		stopped := u.stopped
		u.changed.Broadcast()
		u.mu.Unlock()
		if stopped {
			nc.Close()
		}
		done := make(chan struct{})
		u.running.Go(func() {
			defer close(done)
			defer c.forget()
			u.script(c)
		})
		if u.workers > 0 {
			<-done
		}
	}
}

func (c *Conn) forget() {
	c.nc.Close()
	c.up.mu.Lock()
	defer c.up.mu.Unlock()
	delete(c.up.open, c)
	c.up.changed.Broadcast()
}

// Stop closes the listener and all connections, as if the process had been killed, and waits for
// the scripts.
func (u *Upstream) Stop() {
	u.mu.Lock()
	u.stopped = true
	u.listener.Close()
	for c := range u.open {
		c.nc.Close()
	}
	u.changed.Broadcast()
	u.mu.Unlock()
	u.running.Wait()
}

// Accepted returns the number of connections there have been.
func (u *Upstream) Accepted() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.accepted
}

// Open returns the number of connections there are.
func (u *Upstream) Open() int {
	u.mu.Lock()
	defer u.mu.Unlock()
	return len(u.open)
}

// Requests returns the requests whose parameters were read, in that order. Their bodies may still
// come.
func (u *Upstream) Requests() []*Request {
	u.mu.Lock()
	defer u.mu.Unlock()
	return append([]*Request(nil), u.requests...)
}

// Wait waits until what returns true, at most for d, and reports whether it did. It asks whenever a
// number has changed.
func (u *Upstream) Wait(d time.Duration, what func(accepted, open, requests int) bool) bool {
	deadline := time.Now().Add(d)
	timer := time.AfterFunc(d, u.changed.Broadcast)
	defer timer.Stop()
	u.mu.Lock()
	defer u.mu.Unlock()
	for !what(u.accepted, len(u.open), len(u.requests)) {
		if !time.Now().Before(deadline) {
			return false
		}
		u.changed.Wait()
	}
	return true
}

// Nobody returns an address at which no process listens. For "unix" the socket exists, for
// "missing" it does not.
func Nobody(t testing.TB, network string) string {
	u := &Upstream{t: t, backlog: 1}
	kind := network
	if kind == "missing" {
		kind = "unix"
	}
	if err := u.listen(kind); err != nil {
		t.Fatal("fcgitest: ", err)
	}
	if network == "unix" {
		u.listener.(*net.UnixListener).SetUnlinkOnClose(false)
	}
	u.listener.Close()
	if network == "missing" {
		os.Remove(strings.TrimPrefix(u.Address, "unix:"))
	}
	return u.Address
}

// quit ends the script.
func quit() { runtime.Goexit() }
