package conn_test

import (
	"bytes"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// entries is an access log that keeps what it is told, and has room for a connection as long as
// full is false.
type entries struct {
	full  atomic.Bool
	asked chan struct{}

	mu  sync.Mutex
	all []conn.AccessEntry
}

func (r *entries) LogRequest(_ *loop.Loop, e *conn.AccessEntry) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept := *e
	for _, text := range []*[]byte{&kept.ID, &kept.Target, &kept.Referer, &kept.UserAgent,
		&kept.Line} {
		*text = bytes.Clone(*text)
	}
	r.all = append(r.all, kept)
	e.Share.Used++
	return !r.full.Load()
}

func (r *entries) HasRoom(_ *loop.Loop, s conn.Share) bool {
	select {
	case r.asked <- struct{}{}:
	default:
	}
	return !r.full.Load()
}

// one waits for a single entry.
func (r *entries) one(t *testing.T) conn.AccessEntry {
	t.Helper()
	for end := time.Now().Add(wait.Patience); ; time.Sleep(time.Millisecond) {
		r.mu.Lock()
		all := r.all
		if len(all) > 0 {
			r.all = nil
		}
		r.mu.Unlock()
		switch {
		case len(all) == 1:
			return all[0]
		case len(all) > 1:
			t.Fatalf("%d entries", len(all))
		case time.Now().After(end):
			t.Fatal("no entry")
		}
	}
}

// TestAccessLogText: what a client may send at length is cut.
func TestAccessLogText(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{Handler: hello, AccessLog: log})
		for _, n := range []int{1, 1023, 1024, 1025, 4000} {
			x := strings.Repeat("x", n)
			s.Dial().Do("GET", "GET /"+x+" HTTP/1.1\r\nHost: a\r\nReferer: "+x+"\r\nUser-Agent: "+
				x+"\r\n\r\n")
			e := log.one(t)
			want := min(n, 1024)
			if len(e.Target) != min(n+1, 1024) || len(e.Referer) != want ||
				len(e.UserAgent) != want {
				t.Errorf("%d bytes: %d, %d, %d", n, len(e.Target), len(e.Referer), len(e.UserAgent))
			}
		}
	}, plain, direct)
}

// TestAccessLogOfRefused: what could not be parsed is shown as far as it may be.
func TestAccessLogOfRefused(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{Handler: hello, AccessLog: log,
			Limits: conn.Limits{MaxHeaderSize: 4 << 10, HeaderTimeout: time.Hour}})
		for _, row := range []struct {
			raw, line string
			status    int
			why       string
		}{
			{"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", "\x16\x03\x01\x02\x00\x01\x00", 400,
				"TLS on a plain port"},
			{"GET /\x01 HTTP/1.1\r\nHost: a\r\n\r\n", "GET /\x01 HTTP/1.1", 400,
				"a control character"},
			{"GET / HTTP/1.1\nHost a\n\n", "GET / HTTP/1.1", 400, "lines that end in LF alone"},
			{"\r\nGET / HTTP/1.1\r\nHost : a\r\n\r\n", "GET / HTTP/1.1", 400,
				"an empty line before it, and a later line at fault"},
			{"GET /" + strings.Repeat("x", 5000), "GET /" + strings.Repeat("x", 251), 414,
				"too long"},
			{"GET /slow HTT", "GET /slow HTT", 408, "cut short, and nothing more"},
		} {
			c := s.Dial()
			send(t, c, row.raw)
			if row.status == 408 {
				s.Skip(time.Hour)
			}
			_, _ = io.Copy(io.Discard, c)
			e := log.one(t)
			if invariants.Enabled && row.raw[0] == 0x16 && len(e.Line) > 0 {
				row.line = row.line[:min(len(e.Line), len(row.line))] // refused by its first byte
			}
			if string(e.Line) != row.line || e.Status != row.status || e.Method != "" {
				t.Errorf("%s: %q %d, want %q %d", row.why, e.Line, e.Status, row.line, row.status)
			}
		}
		s.Dial().Do("GET", get)
		if e := log.one(t); e.Line != nil || e.Method != "GET" {
			t.Errorf("%q %q", e.Line, e.Method)
		}
	}, plain, direct)
}

// TestAccessLogOfLeft: a client that has left before there was an answer is 499.
func TestAccessLogOfLeft(t *testing.T) {
	began := make(chan struct{}, 1)
	handlers := map[string]conn.Handler{
		"/abort": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			if req.Sleep(time.Minute) != nil {
				resp.Abort()
			}
			return 0
		},
		"/sleep": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			if req.Sleep(time.Minute) != nil {
				return 500
			}
			return 200
		},
		"/threads": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			req.Go(func(t *loop.Thread) error { return t.Sleep(time.Minute) })
			return 200
		},
		"/upload": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			_, _ = io.Copy(io.Discard, req.Body())
			return 200
		},
		"/http": conn.HTTP(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			began <- struct{}{}
			<-r.Context().Done()
			panic(http.ErrAbortHandler)
		})),
		"/there": func(req *conn.Request, resp *conn.Response) int {
			began <- struct{}{}
			resp.Abort()
			return 0
		},
	}
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{Handler: byPath(handlers), AccessLog: log})
		for path := range handlers {
			for _, reset := range []bool{false, true} {
				c := must.Get(net.Dial("tcp", s.Addr))(t)
				length := "0"
				if path == "/upload" {
					length = "10"
				}
				send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\nContent-Length: "+
					length+"\r\n\r\n")
				<-began
				want := 499
				if path == "/there" {
					want = 0 // the server's own doing
					_, _ = io.Copy(io.Discard, c)
				}
				if reset {
					_ = c.(*net.TCPConn).SetLinger(0)
				}
				c.Close()
				if e := log.one(t); e.Status != want {
					t.Errorf("%s, reset %v: %d, want %d", path, reset, e.Status, want)
				}
			}
		}
		// A client that has only said that it sends no more gets its answer, and that is what is
		// logged.
		c := s.Dial()
		send(t, c, "GET /none HTTP/1.1\r\nHost: a\r\n\r\n")
		c.CloseWrite()
		if a := answers(t, c, "GET")[0]; a.StatusCode != 404 {
			t.Error(a.Status)
		}
		if e := log.one(t); e.Status != 404 {
			t.Error(e.Status)
		}
		// So does the request behind one whose handler was told that the client has left.
		c = s.Dial()
		send(t, c, "GET /sleep HTTP/1.1\r\nHost: a\r\n\r\nGET /none HTTP/1.1\r\nHost: a\r\n\r\n")
		<-began
		c.CloseWrite()
		answers(t, c, "GET", "GET")
		log.mu.Lock()
		defer log.mu.Unlock()
		if len(log.all) != 2 || log.all[0].Status != 499 || log.all[1].Status != 404 {
			t.Errorf("%+v", log.all)
		}
	}, plain, direct)
}

// TestAccessLogOfHijacked: a connection that was taken over is logged at its end, with its
// duration.
func TestAccessLogOfHijacked(t *testing.T) {
	const lasts = 50 * time.Millisecond
	talk := func(c net.Conn, r io.Reader) {
		_, _ = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\n\r\n")
		_, _ = r.Read(make([]byte, 1)) // until the client says so
		c.Close()
	}
	std := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c, rw, err := w.(http.Hijacker).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		talk(c, rw)
	})
	handlers := map[string]conn.Handler{
		"/": func(req *conn.Request, resp *conn.Response) int {
			c, r, err := resp.Hijack()
			if err != nil {
				t.Error(err)
				return 0
			}
			talk(c, r)
			return 0
		},
		"/http":   conn.HTTP(std),
		"/onloop": conn.HTTPOnLoop(std),
	}
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{Handler: byPath(handlers), AccessLog: log})
		for path := range handlers {
			c := s.Dial()
			send(t, c,
				"GET "+path+" HTTP/1.1\r\nHost: a\r\nUser-Agent: agent\r\nReferer: from\r\n\r\n")
			if line, err := c.R.ReadString('\n'); !strings.Contains(line, "101") {
				t.Fatalf("%q, %v", line, err)
			}
			// The time that it lasts is what is measured here.
			_ = c.SetReadDeadline(time.Now().Add(lasts))
			if _, err := io.Copy(io.Discard, c.R); !os.IsTimeout(err) {
				t.Fatal(err)
			}
			log.mu.Lock()
			early := len(log.all)
			log.mu.Unlock()
			send(t, c, "x")
			e := log.one(t)
			if early > 0 || !e.Hijacked || e.Status != 101 || e.Duration < lasts ||
				e.CloseCode != 0 ||
				e.Method != "GET" || string(e.Target) != path || string(e.UserAgent) != "agent" ||
				string(e.Referer) != "from" {
				t.Errorf("%s: %d before the end, %+v", path, early, e)
			}
		}
	}, http1...)
}

// TestAccessLogFull: a connection that has used up its share waits, with its answers sent, and no
// other does. It does not hold its loop, and neither a client that leaves nor a stop has to wait
// for it.
func TestAccessLogFull(t *testing.T) {
	t.Parallel()
	run(t, func(t *testing.T, m mode) {
		log := &entries{asked: make(chan struct{}, 1)}
		var served atomic.Int32
		s := start(t, m, conn.Config{AccessLog: log,
			Handler: func(req *conn.Request, resp *conn.Response) int {
				served.Add(1)
				return hello(req, resp)
			}})
		other := s.Dial()
		other.Do("GET", get)
		for _, leave := range []string{"", "end", "reset"} {
			log.full.Store(true)
			served.Store(0)
			c := s.Dial()
			send(t, c, get+get+get)
			c.Answer("GET")
			for range 3 { // it has looked again and again
				<-log.asked
			}
			if n := served.Load(); n != 1 {
				t.Fatalf("%d requests were served", n)
			}
			switch leave {
			case "end":
				_ = c.Conn.(*net.TCPConn).CloseWrite()
			case "reset":
				_ = c.Conn.(*net.TCPConn).SetLinger(0)
				c.Close()
			}
			<-log.asked
			log.full.Store(false)
			if leave != "reset" {
				c.Answer("GET")
				c.Answer("GET")
			}
			other.Do("GET", get)
			c.Close()
		}
		log.full.Store(true)
		c := s.Dial()
		send(t, c, get+get)
		c.Answer("GET")
		<-log.asked
		<-log.asked
		s.Stop(10 * time.Second)
		c.Answer("GET")
	}, plain, direct)
}

// TestAccessLogOfUnread: a handler's 400 is its own, even if it has left a body unread that has not
// all come.
func TestAccessLogOfUnread(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		log := new(entries)
		s := start(t, m, conn.Config{AccessLog: log,
			Handler: func(*conn.Request, *conn.Response) int { return 400 }})
		a := s.Dial().Do("POST",
			"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel")
		if e := log.one(t); e.Status != 400 || a.StatusCode != 400 || !a.Close {
			t.Errorf("%d logged of %v", e.Status, a.Response)
		}
	}, http1...)
}
