package client_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// onThread runs f on a thread of a loop and waits for its end.
func onThread(t testing.TB, f func(th *loop.Thread)) {
	t.Helper()
	l := loops.Start(t, modes.Direct, nil, nil)
	done := make(chan bool)
	l.Go(0, func(th *loop.Thread) {
		defer close(done)
		f(th)
	})
	<-done
}

// script starts a server whose connections each run f.
func script(t testing.TB,
	f func(c net.Conn, r *bufio.Reader)) (address string, open *atomic.Int32) {
	t.Helper()
	ln := must.Listen(t)
	open = new(atomic.Int32)
	var running sync.WaitGroup
	var mu sync.Mutex
	conns := make(map[net.Conn]bool) // nil at the end
	running.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			mu.Lock()
			if conns == nil {
				c.Close()
			} else {
				conns[c] = true
			}
			mu.Unlock()
			open.Add(1)
			running.Go(func() {
				_ = c.SetDeadline(time.Now().Add(wait.Patience))
				f(c, bufio.NewReader(c))
				mu.Lock()
				delete(conns, c)
				mu.Unlock()
				c.Close()
				open.Add(-1)
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		mu.Lock()
		for c := range conns { // that clients keep
			c.Close()
		}
		conns = nil
		mu.Unlock()
		running.Wait()
	})
	return ln.Addr().String(), open
}

// answer is a script: the same bytes for each request; then the end.
func answer(raw string) func(net.Conn, *bufio.Reader) {
	return func(c net.Conn, r *bufio.Reader) {
		for {
			if _, err := http.ReadRequest(r); err != nil {
				return
			}
			if _, err := io.WriteString(c, raw); err != nil || !strings.HasPrefix(raw, "HTTP/1.1 200 K") {
				return
			}
		}
	}
}

// get asks for a URL and reads the body.
func get(th *loop.Thread, c *client.Client, url string, limit time.Duration) (string, error) {
	resp, err := c.Get(th, limit, url)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	return fmt.Sprint(resp.Status, " ", string(body)), err
}

const reusable = "HTTP/1.1 200 K\r\nContent-Length: 5\r\n\r\nhello"
