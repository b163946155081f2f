package conn_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// TestBridgeEvents: what a handler flushes arrives although it goes on.
func TestBridgeEvents(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		next := make(chan int)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range next {
				fmt.Fprintf(w, "data: %d\n\n", i)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		}))})
		c := s.client()
		send(t, c, get)
		next <- 0
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			t.Fatal(err)
		}
		buf := make([]byte, 100)
		for i := range 100 {
			want := fmt.Sprintf("data: %d\n\n", i)
			if _, err := io.ReadFull(resp.Body, buf[:len(want)]); err != nil || string(buf[:len(want)]) != want {
				t.Fatalf("%q, %v", buf, err)
			}
			if i < 99 {
				next <- i + 1
			}
		}
		close(next)
		if rest := rest(t, resp.Body); rest != "" {
			t.Errorf("%q", rest)
		}
		send(t, c, "GET /404 HTTP/1.1\r\nHost: a\r\n\r\n")
	})
}

// echoing sends every piece of the body back as it comes.
func echoing(w http.ResponseWriter, r *http.Request) {
	rc := http.NewResponseController(w)
	_ = rc.EnableFullDuplex()
	_ = rc.Flush()
	buf := make([]byte, 64<<10)
	for {
		n, err := r.Body.Read(buf)
		if n > 0 {
			w.Write(buf[:n])
			if rc.Flush() != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// TestBridgeEcho: body and answer stream at the same time, and the connection goes on afterwards.
func TestBridgeEcho(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(echoing))})
		c := s.client()
		for range 2 {
			send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
			resp, err := http.ReadResponse(c.br, nil)
			if err != nil {
				t.Fatal(err)
			}
			w := httputil.NewChunkedWriter(c)
			for _, size := range []int{1, 10, 4000, 40000, 100000, 3} {
				piece := bytes.Repeat([]byte{byte(size)}, size)
				if _, err := w.Write(piece); err != nil {
					t.Fatal(err)
				}
				got := make([]byte, size)
				if _, err := io.ReadFull(resp.Body, got); err != nil || !bytes.Equal(got, piece) {
					t.Fatalf("%d: %v", size, err)
				}
			}
			w.Close()
			send(t, c, "\r\n")
			if got := rest(t, resp.Body); got != "" {
				t.Errorf("%q", clip(got))
			}
		}
	})
}

// TestBridgeDirectionsDoNotStopEachOther: client and handler each send more than fits anywhere before the client reads.
func TestBridgeDirectionsDoNotStopEachOther(t *testing.T) {
	const size = 24 << 20
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var uploaded sync.WaitGroup
			uploaded.Go(func() {
				if n, err := io.Copy(io.Discard, r.Body); n != size || err != nil {
					t.Errorf("%d bytes, %v", n, err)
				}
			})
			defer uploaded.Wait()
			if n, err := w.Write(make([]byte, size)); err != nil {
				t.Errorf("wrote %d: %v", n, err)
			}
		}))})
		c := s.client()
		send(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
		piece := make([]byte, 64<<10)
		for range size / len(piece) {
			if _, err := c.Write(piece); err != nil {
				t.Fatal(err)
			}
		}
		resp, err := http.ReadResponse(c.br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestBridgeMemoryIsBounded: a handler that is quicker than its client does not fill the memory, nor does a client that
// is quicker than its handler.
func TestBridgeMemoryIsBounded(t *testing.T) {
	const clients, perClient = 16, 400 << 10
	run(t, func(t *testing.T, m mode) {
		release := make(chan struct{})
		h := func(w http.ResponseWriter, r *http.Request) {
			if r.Method == "POST" {
				r.Body.Read(make([]byte, 1))
				<-release
				return
			}
			for piece := make([]byte, 4<<10); ; {
				if _, err := w.Write(piece); err != nil {
					return
				}
			}
		}
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(h)), MaxBodySize: -1})
		for _, raw := range []string{get, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n"} {
			before := heap()
			var all []*client
			var sending sync.WaitGroup
			for range clients {
				c := s.client()
				all = append(all, c)
				send(t, c, raw)
				if raw != get {
					// Until nothing is taken any more.
					sending.Go(func() {
						for piece := make([]byte, 64<<10); ; {
							_ = c.SetWriteDeadline(time.Now().Add(200 * time.Millisecond))
							if _, err := c.Write(piece); err != nil {
								return
							}
						}
					})
				}
			}
			sending.Wait()
			s.stuck()
			if used := int64(heap()) - int64(before); used > clients*perClient {
				t.Errorf("%s: %d KiB for each client", raw, used/clients>>10)
			}
			for _, c := range all {
				c.reset()
			}
			if raw != get {
				close(release)
			}
			s.idle()
		}
	}, plain, overTLS)
}

// stuck waits until the loops have nothing to do.
func (s *site) stuck() {
	s.t.Helper()
	for last, now := int64(-1), int64(0); last != now; time.Sleep(30 * time.Millisecond) {
		last, now = now, 0
		for _, l := range s.loops {
			done := make(chan int64)
			_ = l.Post(func() { done <- l.Stats().Resumes })
			now += <-done
		}
	}
}

func heap() uint64 {
	runtime.GC()
	var ms runtime.MemStats
	runtime.ReadMemStats(&ms)
	return ms.HeapAlloc
}

// TestBridgeClientLeaves, in each state that a handler can be in, by FIN and by RST.
func TestBridgeClientLeaves(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered := make(chan context.Context, 1)
		ended := make(chan error, 1)
		s := start(t, m, conn.Config{MaxBodySize: -1, Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
		}))})
		for _, path := range []string{"/waiting", "/reading", "/writing", "/flushing"} {
			for _, way := range []string{"FIN", "RST"} {
				c := s.client()
				send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
				ctx := <-entered
				s.stuckUnless(path == "/flushing")
				if way == "FIN" {
					c.Close() // a FIN if all was read; and a RST in answer to what comes later
				} else {
					c.reset()
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
				s.idle()
			}
		}
	})
}

func (s *site) stuckUnless(busy bool) {
	if !busy {
		s.stuck()
	}
}

// TestBridgeHalfClosed: a client that has sent all it has to send still gets its answer.
func TestBridgeHalfClosed(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(w, len(body), err, strings.Repeat("x", 100<<10))
		}))})
		c := s.client()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 300000\r\n\r\n"+strings.Repeat("y", 300000))
		c.closeWrite()
		if a := c.answer("POST"); len(a.text) != len("300000 <nil>")+100<<10 {
			t.Errorf("%s", clip(a.text))
		}
		c.ends()
	})
}

// TestBridgeCountsUntilTheHandlerReturns: a client that has left makes no room for another as long as its handler runs.
func TestBridgeCountsUntilTheHandlerReturns(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, release := make(chan context.Context), make(chan struct{})
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
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
			c := s.client()
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			ctx := <-entered
			c.reset()
			<-ctx.Done()
			s.settle()
			if n := s.server.Active(); n != 1 {
				t.Errorf("%d connections", n)
			}
			release <- struct{}{}
			s.idle()
		}
	})
}

// TestBridgeSlowClient: write_timeout ends the writes of a handler whose client takes nothing, and body_timeout the
// reads of one whose client sends nothing.
func TestBridgeSlowClient(t *testing.T) {
	t.Parallel()
	const limit = 200 * time.Millisecond
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		type end struct {
			err error
			ctx context.Context
		}
		ended := make(chan end, 1)
		s := start(t, m, conn.Config{WriteTimeout: limit, BodyTimeout: limit,
			Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				_, err := io.ReadAll(r.Body)
				for err == nil {
					_, err = w.Write(make([]byte, 10<<10))
				}
				ended <- end{err, r.Context()}
				w.WriteHeader(http.StatusTeapot)
			}))})
		began := time.Now()
		c := s.client()
		_ = c.tcp().SetReadBuffer(4 << 10)
		send(t, c, get)
		e := <-ended
		within(t, "writing", began, limit)
		<-e.ctx.Done()
		c.Close()
		s.idle()

		began = time.Now()
		c = s.client()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n12345")
		if e = <-ended; !errors.Is(e.err, conn.ErrBodyTimeout) || !errors.Is(e.err, os.ErrDeadlineExceeded) {
			t.Errorf("reading: %v", e.err)
		}
		within(t, "reading", began, limit)
		if a := c.answer("POST"); a.StatusCode != http.StatusTeapot || !a.Close {
			t.Errorf("%v", a.Response)
		}
		c.ends()
	})
}

// TestBridgeDeadlines: those of a handler take the place of the server's.
func TestBridgeDeadlines(t *testing.T) {
	t.Parallel()
	const limit = 100 * time.Millisecond
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		ended := make(chan error, 1)
		s := start(t, m, conn.Config{WriteTimeout: 2 * limit, BodyTimeout: 2 * limit,
			Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				rc := http.NewResponseController(w)
				check := func(err error) {
					if err != nil {
						t.Error(err)
					}
				}
				switch r.URL.Path {
				case "/read": // a deadline, none, and the past
					check(rc.SetReadDeadline(time.Now().Add(limit)))
					began := time.Now()
					_, err := r.Body.Read(make([]byte, 10))
					within(t, "read", began, limit)
					if !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("read: %v", err)
					}
					ended <- nil
					if r.ContentLength < 0 {
						return
					}
					check(rc.SetReadDeadline(time.Time{}))
					body, err := io.ReadAll(r.Body)
					fmt.Fprint(w, string(body), err)
				case "/write":
					check(rc.SetWriteDeadline(time.Now().Add(limit)))
					var err error
					for err == nil {
						_, err = w.Write(make([]byte, 10<<10))
					}
					ended <- err
				}
			}))})
		c := s.client()
		if mountsOffLoop(t) { // on the loop a body's error is for good
			send(t, c, "POST /read HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
			<-ended
			time.Sleep(3 * limit) // longer than body_timeout
			if a := c.do("POST", "12345"); a.text != "12345<nil>" {
				t.Errorf("%q", a.text)
			}
		}
		c.Close()
		c = s.client()
		send(t, c, "POST /read HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
		<-ended
		c.Close()

		began := time.Now()
		c = s.client()
		_ = c.tcp().SetReadBuffer(4 << 10)
		send(t, c, "GET /write HTTP/1.1\r\nHost: a\r\n\r\n")
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
		within(t, "write", began, limit)
		if _, err := io.ReadAll(c); err == nil {
			t.Error("the answer has an end")
		}
		s.idle()
	})
}

func mountsOffLoop(t *testing.T) bool { return strings.HasSuffix(t.Name(), "off_the_loop") }

// TestBridgeDeadlineEndsAWait: of a read that has begun, from another goroutine.
func TestBridgeDeadlineEndsAWait(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, ended := make(chan func(time.Time) error, 1), make(chan error, 1)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			entered <- http.NewResponseController(w).SetReadDeadline
			_, err := io.ReadAll(r.Body)
			ended <- err
		}))})
		c := s.client()
		send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n")
		set := <-entered
		s.stuck()
		if err := set(time.Now()); err != nil {
			t.Error(err)
		}
		if err := <-ended; !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error(err)
		}
	})
}

// TestBridgeUnreadBody: a body that the handler leaves is dropped if it is small, and ends the connection if it is not.
func TestBridgeUnreadBody(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/close" {
				r.Body.Close()
			}
			io.WriteString(w, "done")
		}))})
		c := s.client()
		for _, path := range []string{"/", "/close"} {
			head := "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: "
			if a := c.do("POST", head+"20000\r\n\r\n"+strings.Repeat("x", 20000)); a.text != "done" || a.Close {
				t.Errorf("%q %v", a.text, a.Response)
			}
		}
		if a := c.do("POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n"); a.text != "done" || !a.Close {
			t.Errorf("%q %v", a.text, a.Response)
		}
	})
}

// TestBridgeContinue: the client is told to send its body when the handler reads it, and not before.
func TestBridgeContinue(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/read" {
				io.Copy(w, r.Body)
			}
		}))})
		c := s.client()
		const head = "POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
		if a := c.do("POST", fmt.Sprintf(head, "/read")); a.StatusCode != 100 {
			t.Fatal(a.Status)
		}
		if a := c.do("POST", "12345"); a.text != "12345" || a.Close {
			t.Errorf("%q, %v", a.text, a.Response)
		}
		if a := c.do("POST", fmt.Sprintf(head, "/")); a.StatusCode != 200 || !a.Close {
			t.Errorf("%v", a.Response)
		}
		c.ends()
	})
}

// TestBridgePipelined: requests sent at once are answered one after the other.
func TestBridgePipelined(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, _ := io.ReadAll(r.Body)
			fmt.Fprint(w, r.URL.Path, string(body))
		}))})
		var raw, want strings.Builder
		var methods []string
		for i := range 50 {
			fmt.Fprintf(&raw, "POST /%d HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n%02d", i, i)
			fmt.Fprintf(&want, "/%d%02d ", i, i)
			methods = append(methods, "POST")
		}
		c := s.client()
		go io.WriteString(c, raw.String())
		var got strings.Builder
		for _, a := range answers(t, c.br, methods...) {
			got.WriteString(a.text + " ")
		}
		if got.String() != want.String() {
			t.Errorf("%s", got.String())
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
		c := s.client()
		send(t, c, fmt.Sprintf(post, "/read"))
		<-entered
		for _, l := range s.loops {
			l.Stop(20 * time.Second)
			stopping := make(chan struct{})
			if l.Post(func() { close(stopping) }) == nil { // else it had no connection, and has ended
				<-stopping
			}
		}
		close(release)
		if a := c.answer("POST"); a.text != "done" || !a.Close {
			t.Errorf("%v", a.Response)
		}
		c.ends()
		if err := <-ended; err != nil {
			t.Error(err)
		}
		s.stop(0)

		release = make(chan struct{})
		s = start(t, m, conn.Config{Handler: h})
		c = s.client()
		send(t, c, fmt.Sprintf(post, "/"))
		<-entered
		s.stop(10 * time.Millisecond)
		close(release)
		if err := <-ended; !errors.Is(err, loop.ErrClientGone) {
			t.Errorf("after the stop: %v", err)
		}
	})
}

// TestBridgeBodyTooLarge: max_body_size holds for chunked bodies, too.
func TestBridgeBodyTooLarge(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{MaxBodySize: 100, Handler: mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, err := io.ReadAll(r.Body)
			http.Error(w, fmt.Sprint(err == conn.ErrBodyTooLarge), http.StatusTeapot)
		}))})
		c := s.client()
		a := c.do("POST", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\nc8\r\n"+strings.Repeat("x", 200)+"\r\n0\r\n\r\n")
		if a.StatusCode != http.StatusTeapot || a.text != "true\n" || !a.Close {
			t.Errorf("%v %q", a.Response, a.text)
		}
		c.ends()
	})
}
