package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

const upgrade = "GET %s HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"

// echoLines speaks a protocol of lines, in all ways in which a handler can begin one.
func echoLines(t *testing.T) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switched :=
			"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n"
		switch r.URL.Path {
		case "/":
			io.WriteString(w, "plain")
			return
		case "/header": // as coder/websocket does
			w.Header().Set("Connection", "Upgrade")
			w.Header().Set("Upgrade", "echo")
			w.WriteHeader(http.StatusSwitchingProtocols)
			switched = ""
		}
		c, brw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		if _, _, err := w.(http.Hijacker).Hijack(); err != http.ErrHijacked {
			t.Errorf("hijacked twice: %v", err)
		}
		if _, err := io.WriteString(w, "x"); err != http.ErrHijacked {
			t.Errorf("written afterwards: %v", err)
		}
		brw.WriteString(switched)
		for {
			brw.Flush()
			line, err := brw.ReadString('\n')
			if err != nil {
				if err != io.EOF {
					t.Error(err)
				}
				return
			}
			if err := r.Context().Err(); err != nil {
				t.Errorf("context: %v", err)
			}
			brw.WriteString("echo " + line)
		}
	})
}

// TestHijack: the connection is the handler's, with what the client has sent too early, behind the
// answers to what was asked before.
func TestHijack(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(echoLines(t))})
		for _, path := range []string{"/echo", "/header"} {
			long := strings.Repeat("x", 20000) + "\n"
			c := s.Dial()
			send(t, c, get+fmt.Sprintf(upgrade, path)+"early\n")
			if a := c.Answer("GET"); a.Text != "plain" {
				t.Errorf("%s: %q", path, a.Text)
			}
			a := c.Answer("GET")
			if a.StatusCode != 101 || a.Header.Get("Upgrade") != "echo" ||
				a.Header.Get("Connection") != "Upgrade" {
				t.Errorf("%s: %v", path, a.Response)
			}
			for _, line := range []string{"early\n", "a\n", long, "b\n"} {
				if line != "early\n" {
					send(t, c, line)
				}
				if got, err := c.R.ReadString('\n'); err != nil || got != "echo "+line {
					t.Errorf("%s: %q, %v", path, clip(got), err)
				}
			}
			if mountsOffLoop(t) {
				s.Idle() // the connection's thread ends, and with it what the server counts
			}
			c.CloseWrite()
			c.Ends()
			c.Close()
		}
		s.Idle()
	}, http1...)
}

// TestHijackEarlyInLargePieces: what was read ahead may be more than a Reader's usual buffer holds.
func TestHijackEarlyInLargePieces(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		entered := make(chan int, 1)
		h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			c, brw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			n, err := io.Copy(io.Discard, io.LimitReader(brw, 30000))
			if err != nil {
				t.Error(err)
			}
			entered <- int(n)
		})
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxHeaderSize: 64 << 10}, Handler: mount(h)})
		c := s.Dial()
		send(t, c, "GET / HTTP/1.1\r\nHost: a\r\nX: "+strings.Repeat("x", 20000)+"\r\n\r\n"+
			strings.Repeat("y", 30000))
		if n := <-entered; n != 30000 {
			t.Error(n)
		}
		_, _ = io.ReadAll(c)
	}, http1...)
}

// TestHijackAfterAPartOfTheBody: what the handler has not read of it comes first, and then what
// came behind it.
func TestHijackAfterAPartOfTheBody(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			if _, err := io.ReadFull(r.Body, make([]byte, 1)); err != nil {
				t.Error(err)
			}
			c, brw, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			if _, err := io.CopyN(c, brw, r.ContentLength-1+int64(len("behind"))); err != nil {
				t.Error(err)
			}
			// TLS has a last record of the client. If it were left unread, close(2) would reset the
			// connection, and take away what the kernel has not sent yet.
			_, _ = io.Copy(io.Discard, brw)
		}))})
		for _, n := range []int{2, 10, 100_000} {
			c := s.Dial()
			body := string(chacha(n))
			send(t, c,
				fmt.Sprintf("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%sbehind", n,
					body))
			c.CloseWrite()
			if got, _ := io.ReadAll(c.R); string(got) != body[1:]+"behind" {
				t.Errorf("of %d bytes: %d, or others", n, len(got))
			}
		}
	}, http1...)
}

// TestHijackOutlivesTheLoop: off the loop, the connection has nothing to do with it any more; and
// the context lasts as long as the handler.
func TestHijackOutlivesTheLoop(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var ctx context.Context
		hijacked, stopped, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
		s := start(t, m, conn.Config{Handler: conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			ctx = r.Context()
			c, brw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			close(hijacked)
			<-stopped
			if err := ctx.Err(); err != nil {
				t.Error(err)
			}
			go func() { // and as long as anybody else
				defer close(done)
				defer c.Close()
				<-ctx.Done()
				line, err := brw.ReadString('\n')
				if err != nil {
					t.Error(err)
				}
				_ = c.SetWriteDeadline(time.Now().Add(10 * time.Second))
				io.WriteString(c, line)
			}()
		}))})
		c := s.Dial()
		send(t, c, get)
		<-hijacked
		s.Idle()
		s.Stop(0)
		close(stopped)
		send(t, c, "still there\n")
		if got := rest(t, c.R); got != "still there\n" {
			t.Errorf("%q", got)
		}
		<-done
	}, http1...)
}

// TestHijackOnTheLoopEndsWithTheHandler, which need not close the connection, and with the loop.
func TestHijackOnTheLoopEndsWithTheHandler(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		entered, ended := make(chan struct{}, 1), make(chan struct{}, 1)
		addrs := make(chan [2]net.Addr, 2)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Defer(func() { ended <- struct{}{} })
			c, br, err := resp.Hijack()
			if err != nil {
				t.Error(err)
				return 0
			}
			if _, _, err := resp.Hijack(); err != http.ErrHijacked {
				t.Errorf("hijacked twice: %v", err)
			}
			if _, err := resp.Write([]byte("x")); err != http.ErrHijacked {
				t.Errorf("written afterwards: %v", err)
			}
			if _, err := req.Body().Read(make([]byte, 1)); err != http.ErrHijacked {
				t.Errorf("body: %v", err)
			}
			addrs <- [2]net.Addr{c.LocalAddr(), c.RemoteAddr()}
			entered <- struct{}{}
			if req.Path() == "/killed" {
				_, _ = br.ReadByte()
				t.Error("goes on")
			}
			_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if _, err := br.ReadByte(); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("read: %v", err)
			}
			entered <- struct{}{}
			if !m.TLS { // there, an error is for good
				_ = c.SetReadDeadline(time.Time{})
				if b, err := br.ReadByte(); b != 'x' || err != nil {
					t.Errorf("read: %v", err)
				}
			}
			io.WriteString(c, "bye")
			return 0
		}})
		c := s.Dial()
		send(t, c, get)
		if a := <-addrs; a[0].String() != s.Addr || a[1].String() != c.LocalAddr().String() {
			t.Errorf("addresses %v", a)
		}
		<-entered
		<-entered
		send(t, c, "x")
		if got := rest(t, c.R); got != "bye" {
			t.Errorf("%q", got)
		}
		<-ended
		s.Idle()

		c = s.Dial()
		send(t, c, "GET /killed HTTP/1.1\r\nHost: a\r\n\r\n")
		<-entered
		s.Stop(0)
		<-ended
		if _, err := c.R.ReadByte(); err == nil {
			t.Error("the connection goes on")
		}
	}, http1...)
}

// TestHijackedStream: the stream is there for those who wait for several things at once.
func TestHijackedStream(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		said := make(chan string)
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			c, br, err := resp.Hijack()
			if err != nil {
				t.Error(err)
				return 0
			}
			st := conn.HijackedOf(c)
			if st == nil {
				t.Error("no stream")
				return 0
			}
			fmt.Fprint(c, "hello\n")
			other := loop.FromChan(said)
			for {
				st.SetNoWait(true)
				_, err := br.Peek(1)
				st.SetNoWait(false)
				if errors.Is(err, stream.ErrWouldBlock) {
					if _, err := req.AwaitAny(-1, st.Readable(), other); err != nil {
						t.Error(err)
						return 0
					}
					if text, ok := other.Value(); ok {
						fmt.Fprintln(c, "other", text)
					}
					continue
				}
				if err != nil {
					return 0
				}
				line, err := br.ReadString('\n')
				if err != nil {
					t.Error(err)
					return 0
				}
				io.WriteString(c, "client "+line)
			}
		}})
		c := s.Dial()
		send(t, c, get)
		expect := func(want string) {
			t.Helper()
			if got, err := c.R.ReadString('\n'); got != want+"\n" {
				t.Errorf("%q instead of %q: %v", got, want, err)
			}
		}
		expect("hello")
		for range 20 {
			said <- "a"
			expect("other a")
			send(t, c, "1\n2\n")
			expect("client 1")
			expect("client 2")
		}
		c.CloseWrite()
		c.Ends()
		if conn.HijackedOf(c.Conn) != nil {
			t.Error("a stream where there is none")
		}
	}, http1...)
}

// TestHijackOfTheGone: a client that has left cannot be hijacked, or is found to have left; the
// handler ends anyhow.
func TestHijackOfTheGone(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		entered, gone, ended := make(chan context.Context, 1), make(chan struct{}),
			make(chan error, 1)
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			entered <- r.Context()
			if mountsOffLoop(t) {
				<-r.Context().Done()
			} else {
				<-gone
			}
			c, brw, err := http.NewResponseController(w).Hijack()
			if err == nil {
				_, err = brw.ReadByte()
				c.Close()
			}
			ended <- err
		}))})
		c := s.Dial()
		send(t, c, get)
		<-entered
		c.Reset()
		close(gone)
		if err := <-ended; err == nil {
			t.Error("no error")
		}
		s.Idle()
	})
}

// TestHijackPanics: a panic afterwards is logged, and on the loop ends the connection.
func TestHijackPanics(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			c, _, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
			}
			defer c.Close()
			bridgePanics()
		}))})
		s.Panics.Expect()
		c := s.Dial()
		send(t, c, get)
		if got := rest(t, c.R); got != "" {
			t.Errorf("%q", got)
		}
		logged(s, "panic in a handler", "bridgePanics")
	}, http1...)
}

// TestHijackLetsGo: a handler that has taken its connection over can still ask its request, whose
// context ends with it; the request is in the access log by then; and what the handler does not use
// any more nobody holds.
func TestHijackLetsGo(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		contexts, requests := make(chan context.Context, 1),
			make(chan weak.Pointer[conn.Request], 1)
		log := new(recorder)
		s := start(t, m, conn.Config{AccessLog: log,
			Handler: func(req *conn.Request, resp *conn.Response) int {
				var ctx context.Context
				path := req.Path()
				if path == "/early" {
					ctx = req.Context()
				}
				resp.Layer().Relay(http.StatusSwitchingProtocols, "")
				resp.Header().Set("Connection", "Upgrade")
				c, r, err := resp.Hijack()
				if err != nil {
					t.Error(err)
					return 0
				}
				if path == "/" {
					requests <- weak.Make(req)
					line, _ := r.ReadString('\n')
					_, _ = io.WriteString(c, line)
					return 0
				}
				line, _ := r.ReadString('\n')
				if path == "/late" {
					ctx = req.Context()
				}
				if got := req.Method() + req.Target() + req.Host() + req.Header().Get("X-A") +
					req.Query().Get("q"); got != "GET"+req.Path()+"?q=1ab1" {
					t.Errorf("request is %q", got)
				}
				if v, _ := req.Layer().HeaderView("X-A"); string(v) != "b" || ctx.Err() != nil {
					t.Errorf("%q, %v", v, ctx.Err())
				}
				contexts <- ctx
				_, _ = io.WriteString(c, line)
				return 0
			}})
		for _, path := range []string{"/early", "/late", "/"} {
			c := s.Dial()
			send(t, c,
				"GET "+
					path+"?q=1 HTTP/1.1\r\nHost: a\r\nX-A: b\r\nConnection: Upgrade\r\nUpgrade: echo\r\n\r\n")
			if a := c.Answer("GET"); a.StatusCode != 101 {
				t.Error(a.Status)
			}
			if path == "/" {
				req := <-requests
				s.Settle() // it waits
				for end := time.Now().Add(10 * time.Second); req.Value() != nil; runtime.GC() {
					if time.Now().After(end) {
						t.Fatal("the request is held")
					}
				}
			}
			send(t, c, "line\n")
			if line, err := c.R.ReadString('\n'); line != "line\n" || err != nil {
				t.Errorf("%q, %v", line, err)
			}
			if path != "/" {
				<-(<-contexts).Done()
			}
			c.Ends()
			if got := log.take(); len(got) != 1 || got[0] != "GET "+path+"?q=1 101" {
				t.Errorf("access log: %q", got)
			}
		}
	}, http1...)
}

// recorder is an access log.
type recorder struct {
	mu  sync.Mutex
	all []string
}

func (r *recorder) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, fmt.Sprintf("%s %s %d", e.Method, e.Target, e.Status))
	return true
}

func (r *recorder) HasRoom(*loop.Loop, conn.Share) bool { return true }

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}
