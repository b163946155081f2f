package conn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestBridgeClientLeaves, in each state that a handler can be in, by FIN and by RST.
func TestBridgeClientLeaves(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		entered := make(chan context.Context, 1)
		ended := make(chan error, 1)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered <- r.Context()
			var err error
			switch r.URL.Path {
			case "/waiting":
				<-r.Context().Done()
				err = context.Cause(r.Context())
			case "/reading":
				_, err = io.ReadAll(r.Body)
			case "/writing":
				for piece := make([]byte, 4<<10); err == nil; {
					_, err = w.Write(piece)
				}
			case "/flushing":
				for err == nil {
					io.WriteString(w, ".")
					err = http.NewResponseController(w).Flush()
				}
			}
			ended <- err
			<-r.Context().Done()
		})
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: -1}, Handler: conn.HTTP(h)})
		for _, path := range []string{"/waiting", "/reading", "/writing", "/flushing"} {
			for _, way := range []string{"FIN", "RST"} {
				c := s.Dial()
				send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
				ctx := <-entered
				stuckUnless(s, path == "/flushing")
				if way == "FIN" {
					c.Close() // a FIN if all was read; and a RST in answer to what comes later
				} else {
					c.Reset()
				}
				err := <-ended
				<-ctx.Done()
				if cause := context.Cause(ctx); !errors.Is(cause, loop.ErrClientGone) {
					t.Errorf("%s, %s: cause %v", path, way, cause)
				}
				switch {
				case err == nil:
					t.Errorf("%s, %s: no error", path, way)
				case path == "/reading" && way == "FIN" && !errors.Is(err, io.ErrUnexpectedEOF):
					t.Errorf("%s, %s: %v", path, way, err)
				}
				s.Idle()
			}
		}
	})
}

func stuckUnless(s *site, busy bool) {
	if !busy {
		stuck(s)
	}
}

// TestBridgeHalfClosed: a client that has sent all it has to send still gets its answer.
func TestBridgeHalfClosed(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(w, len(body), err, strings.Repeat("x", 100<<10))
		}))})
		c := s.Dial()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"+
			strings.Repeat("y", 300000))
		c.CloseWrite()
		if a := c.Answer("POST"); len(a.Text) != len("300000 <nil>")+100<<10 {
			t.Errorf("%s", clip(a.Text))
		}
		c.Ends()
	})
}

// TestBridgeCountsUntilTheHandlerReturns: a client that has left makes no room for another as long
// as its handler runs.
func TestBridgeCountsUntilTheHandlerReturns(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, release := make(chan context.Context), make(chan struct{})
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			entered <- r.Context()
			<-release
			if r.URL.Path == "/write" {
				for {
					if _, err := w.Write(make([]byte, 1000)); err != nil {
						return
					}
				}
			}
		}))})
		for _, path := range []string{"/", "/write"} {
			c := s.Dial()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			ctx := <-entered
			c.Reset()
			<-ctx.Done()
			s.Settle()
			if n := s.Active(); n != 1 {
				t.Errorf("%d connections", n)
			}
			release <- struct{}{}
			s.Idle()
		}
	})
}

// TestBridgeStop: a stop waits for the handler, within the grace period.
func TestBridgeStop(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, release := make(chan struct{}, 1), make(chan struct{})
		ended := make(chan error, 1)
		h := conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered <- struct{}{}
			var err error
			if r.URL.Path == "/read" {
				_, err = io.ReadAll(r.Body)
			}
			<-release
			_, e := io.WriteString(w, "done")
			err = errors.Join(err, e, http.NewResponseController(w).Flush())
			_, e = r.Body.Read(make([]byte, 1))
			if e != io.EOF {
				err = errors.Join(err, e)
			}
			ended <- err
		}))
		const post = "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"
		s := start(t, m, conn.Config{Handler: h})
		c := s.Dial()
		send(t, c, fmt.Sprintf(post, "/read"))
		<-entered
		for _, l := range s.Loops.All {
			l.Stop(20 * time.Second)
			stopping := make(chan struct{})
			// else it had no connection, and has ended
			if l.Post(func() { close(stopping) }) == nil {
				<-stopping
			}
		}
		close(release)
		if a := c.Answer("POST"); a.Text != "done" || !a.Close {
			t.Errorf("%v", a.Response)
		}
		c.Ends()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.Stop(0)

		release = make(chan struct{})
		s = start(t, m, conn.Config{Handler: h})
		c = s.Dial()
		send(t, c, fmt.Sprintf(post, "/"))
		<-entered
		s.Stop(10 * time.Millisecond)
		close(release)
		if err := <-ended; !errors.Is(err, loop.ErrClientGone) {
			t.Errorf("after the stop: %v", err)
		}
	})
}

// TestBridgePanicAfterTheStop: it is logged, though the thread that would do it is gone.
func TestBridgePanicAfterTheStop(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, release := make(chan struct{}), make(chan struct{})
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			close(entered)
			<-release
			bridgePanics()
		}))})
		s.Panics.Expect()
		send(t, s.Dial(), get)
		<-entered
		s.Stop(0)
		close(release)
		logged(s, "panic in a handler", "bridgePanics")
	})
}

// TestBridgeEndlessHead: a handler that goes on writing in answer to HEAD ends when its client has
// left.
func TestBridgeEndlessHead(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, ended := make(chan struct{}, 1), make(chan error, 1)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			entered <- struct{}{}
			for piece := make([]byte, 4<<10); ; {
				if _, err := w.Write(piece); err != nil {
					ended <- err
					return
				}
			}
		}))})
		c := s.Dial()
		send(t, c, "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
		<-entered
		c.Reset()
		if err := <-ended; !errors.Is(err, loop.ErrClientGone) {
			t.Error(err)
		}
		s.Idle()
	})
}

// TestBridgeStress: clients that send, read, dawdle and leave as they please. What comes is what
// was sent, and nothing is left of them.
func TestBridgeStress(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("flush") {
				echoing(w, r)
				return
			}
			io.Copy(w, r.Body)
		})
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: -1}, Handler: mount(h)})
		var clients sync.WaitGroup
		for i := range 12 {
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			clients.Go(func() {
				for range 8 {
					size := 1 << rnd.IntN(19)
					body := bytes.Repeat([]byte{byte('a' + i)}, size)
					c := s.Dial()
					var sending sync.WaitGroup
					leave := rnd.IntN(4) == 0
					target := []string{"/", "/?flush"}[rnd.IntN(2)]
					sending.Go(func() {
						fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n",
							target, size)
						if leave {
							body = body[:len(body)/2]
						}
						_, _ = c.Write(body)
						if leave {
							c.Reset()
						}
					})
					resp, err := http.ReadResponse(c.R, nil)
					var got []byte
					if err == nil {
						got, err = io.ReadAll(resp.Body)
					}
					sending.Wait()
					if !leave && (err != nil || !bytes.Equal(got, body)) {
						t.Errorf("%d bytes to %s: %d, %v", size, target, len(got), err)
					}
					c.Close()
				}
			})
		}
		clients.Wait()
		s.Idle()
	})
}

// TestBridgeCloseNotify: the interface is old, and some code takes every ResponseWriter for one, as
// gin's Context.Stream does.
func TestBridgeCloseNotify(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		entered := make(chan (<-chan bool), 1)
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			//lint:ignore SA1019 that it is there is what is tested
			notifier := w.(http.CloseNotifier)
			gone := notifier.CloseNotify()
			entered <- gone
			for r.URL.Path == "/stream" {
				select {
				case <-gone:
					entered <- nil
					return
				default:
					_, _ = io.WriteString(w, strings.Repeat("data\n", 1000))
					w.(http.Flusher).Flush()
				}
			}
			if notifier.CloseNotify() != gone {
				t.Error("another channel for the same request")
			}
		}))})
		c := s.Dial()
		c.Do("GET", get)
		gone := <-entered
		c.Do("GET", get) // the first request has ended, and its context
		<-entered
		send(t, c, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n")
		<-entered
		c.Reset()
		<-entered
		s.Idle()
		select {
		case <-gone:
			t.Error("told that the client of an answered request has left")
		default:
		}
	})
}
