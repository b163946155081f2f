package conn_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// TestBridgeEvents: what a handler flushes arrives although it goes on.
func TestBridgeEvents(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		next := make(chan int)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			w.Header().Set("Content-Type", "text/event-stream")
			for i := range next {
				fmt.Fprintf(w, "data: %d\n\n", i)
				if err := http.NewResponseController(w).Flush(); err != nil {
					t.Error(err)
				}
			}
		}))})
		c := s.Dial()
		send(t, c, get)
		next <- 0
		resp := must.Get(http.ReadResponse(c.R, nil))(t)
		buf := make([]byte, 100)
		for i := range 100 {
			want := fmt.Sprintf("data: %d\n\n", i)
			if _, err := io.ReadFull(resp.Body, buf[:len(want)]); err != nil ||
				string(buf[:len(want)]) != want {
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
		c := s.Dial()
		for range 2 {
			send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
			resp := must.Get(http.ReadResponse(c.R, nil))(t)
			w := httputil.NewChunkedWriter(c)
			for _, size := range []int{1, 10, 4000, 40000, 100000, 3} {
				piece := bytes.Repeat([]byte{byte(size)}, size)
				must.Get(w.Write(piece))(t)
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

// TestBridgeDirectionsDoNotStopEachOther: client and handler each send more than fits anywhere
// before the client reads.
func TestBridgeDirectionsDoNotStopEachOther(t *testing.T) {
	const size = 24 << 20
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
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
		c := s.Dial()
		send(t, c, fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n", size))
		piece := make([]byte, 64<<10)
		for range size / len(piece) {
			must.Get(c.Write(piece))(t)
		}
		resp := must.Get(http.ReadResponse(c.R, nil))(t)
		if n, err := io.Copy(io.Discard, resp.Body); n != size || err != nil {
			t.Errorf("%d bytes, %v", n, err)
		}
	})
}

// TestBridgeUnreadBody: a body that the handler leaves is dropped if it is small, and ends the
// connection if it is not.
func TestBridgeUnreadBody(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			if r.URL.Path == "/close" {
				r.Body.Close()
			}
			io.WriteString(w, "done")
		}))})
		c := s.Dial()
		for _, path := range []string{"/", "/close"} {
			head := "POST " + path + " HTTP/1.1\r\nHost: a\r\nContent-Length: "
			if a := c.Do("POST", head+"20000\r\n\r\n"+
				strings.Repeat("x", 20000)); a.Text != "done" || a.Close {
				t.Errorf("%q %v", a.Text, a.Response)
			}
		}
		if a := c.Do("POST",
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10000000\r\n\r\n"); a.Text != "done" ||
			!a.Close {
			t.Errorf("%q %v", a.Text, a.Response)
		}
	}, http1...)
}

// TestBridgeContinue: the client is told to send its body when the handler reads it, and not
// before.
func TestBridgeContinue(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			if r.URL.Path == "/read" {
				io.Copy(w, r.Body)
			}
		}))})
		c := s.Dial()
		const head = "POST %s HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n"
		if a := c.Do("POST", fmt.Sprintf(head, "/read")); a.StatusCode != 100 {
			t.Fatal(a.Status)
		}
		if a := c.Do("POST", "12345"); a.Text != "12345" || a.Close {
			t.Errorf("%q, %v", a.Text, a.Response)
		}
		sent := time.Now()
		if a := c.Do("POST", fmt.Sprintf(head, "/")); a.StatusCode != 200 || a.Close == m.HTTP2 {
			t.Errorf("%v", a.Response)
		}
		c.Ends()
		if d := time.Since(sent); d > 20*time.Second {
			t.Errorf("it ends after %v, as if a body could come that nobody has asked for", d)
		}
	})
}

// TestBridgePipelined: requests sent at once are answered one after the other.
func TestBridgePipelined(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
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
		c := s.Dial()
		go io.WriteString(c, raw.String())
		var got strings.Builder
		for _, a := range answers(t, c.R, methods...) {
			got.WriteString(a.Text + " ")
		}
		if got.String() != want.String() {
			t.Errorf("%s", got.String())
		}
	})
}

// A handler's small writes come together; the loop is not woken for each.
func TestBridgeWakesTheLoopOnce(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			for range 1000 {
				io.WriteString(w, "0123456789")
			}
		}))})
		c := s.Dial()
		c.Do("GET", get)
		resumes := func() (n int64) {
			s.On(func(l *loop.Loop) { n = l.Stats().Resumes })
			return n
		}
		before := resumes()
		for range 10 {
			c.Do("GET", get)
		}
		// For each the request, and the return of its handler, for which it may look more than
		// once; more of both where the invariants cut reads and writes short. Without gathering it
		// were a thousand.
		if n := resumes() - before; n > 200 {
			t.Errorf("%d wake-ups for 10 requests", n)
		}
	}, plain, direct)
}

// TestBridgeHandlersRunAtOnce: as many as there are connections; none waits for another's place.
func TestBridgeHandlersRunAtOnce(t *testing.T) {
	const n = 2 * loop.DefaultWorkers
	run(t, func(t *testing.T, m mode) {
		var together sync.WaitGroup
		together.Add(n)
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			together.Done()
			together.Wait()
		}))})
		var clients []*client
		for range n {
			c := s.Dial()
			send(t, c, get)
			clients = append(clients, c)
		}
		for _, c := range clients {
			c.Answer("GET")
		}
	})
}
