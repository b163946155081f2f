package conn_test

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"golang.org/x/sys/unix"
)

func TestPersistence(t *testing.T) {
	rows := []struct {
		raw  string
		want string // Connection of the answer; the connection goes on unless it is close
	}{
		{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\n\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: TE, upgrade\r\n\r\n", ""},
		{"GET / HTTP/1.2\r\nHost: a\r\n\r\n", ""},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "close"},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, Close\r\n\r\n", "close"},
		{"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive\r\nConnection: close\r\n\r\n",
			"close"},
		{"GET / HTTP/1.0\r\n\r\n", "close"},
		{"GET / HTTP/1.0\r\nConnection: Keep-Alive\r\n\r\n", "keep-alive"},
		{"GET / HTTP/1.0\r\nConnection: keep-alive, close\r\n\r\n", "close"},
		{"GET /closing HTTP/1.1\r\nHost: a\r\n\r\n", "close"}, // the handler's wish
		{"GET /missing HTTP/1.1\r\nHost: a\r\n\r\n", ""},      // an error is no reason to close
		{"GET /missing HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "keep-alive"},
	}
	h := byPath(map[string]conn.Handler{"/": hello,
		"/closing": func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Set("Connection", "Close")
			return hello(req, resp)
		}})
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h})
		for _, row := range rows {
			c := s.Dial()
			a := c.Do("GET", row.raw)
			if got := strings.Join(a.Header.Values("Connection"), "|"); got != row.want &&
				!(a.Close && row.want == "close") {
				t.Errorf("%q: Connection %q, want %q", row.raw, got, row.want)
			}
			if a.Close != (row.want == "close") {
				t.Errorf("%q: close is %v", row.raw, a.Close)
			}
			if a.Proto != "HTTP/1.1" { // a server's version is its own (RFC 9110 section 6.2)
				t.Errorf("%q: answered as %s", row.raw, a.Proto)
			}
			if !a.Close {
				if again := c.Do("GET", row.raw); again.StatusCode != a.StatusCode {
					t.Errorf("%q again: %s", row.raw, again.Status)
				}
				c.Do("GET", "GET / HTTP/1.0\r\n\r\n")
			}
			c.Ends()
			c.Close()
		}
	}, http1...)
}

func TestEmptyLinesBeforeARequest(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: hello})
		c := s.Dial()
		for n := range 9 {
			c.Do("GET", strings.Repeat("\r\n", n)+get)
		}
		// As old clients end a body (RFC 9112 section 2.2), in the middle of a pipeline.
		post := "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello\r\n"
		send(t, c, post+post+post)
		answers(t, c.R, "POST", "POST", "POST")
	}, http1...)
}

func TestPipelineIsAnsweredInOrderWithFewWrites(t *testing.T) {
	const n = 100
	h := func(req *conn.Request, resp *conn.Response) int {
		resp.WriteString(req.Path())
		return 200
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h})
		c := s.Dial()
		var raw strings.Builder
		methods := make([]string, n)
		for i := range n {
			fmt.Fprintf(&raw, "GET /%d HTTP/1.1\r\nHost: a\r\n\r\n", i)
		}
		send(t, c, raw.String())
		for i, a := range answers(t, c.R, methods...) {
			if a.Text != fmt.Sprint("/", i) {
				t.Fatalf("answer %d is that to %s", i, a.Text)
			}
		}
		// A write is a segment on the loopback interface, whose segments are larger than what is
		// gathered.
		if tcp, ok := c.Conn.(*net.TCPConn); ok && !invariants.Enabled {
			if got := segments(t, tcp); got > 4 {
				t.Errorf("%d answers came in %d segments", n, got)
			}
		}
	})
}

// segments returns how many segments with data have come on c.
func segments(t *testing.T, c *net.TCPConn) (n uint32) {
	rc, err := c.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if cerr := rc.Control(func(fd uintptr) {
		var info *unix.TCPInfo
		if info, err = unix.GetsockoptTCPInfo(int(fd), unix.IPPROTO_TCP,
			unix.TCP_INFO); err == nil {
			n = info.Data_segs_in
		}
	}); cerr != nil || err != nil {
		t.Fatal(cerr, err)
	}
	return n
}

// bodies are handlers that give a body in every way there is.
var bodies = map[string]conn.Handler{
	"/write":   hello,
	"/nothing": func(*conn.Request, *conn.Response) int { return 200 },
	"/error":   func(*conn.Request, *conn.Response) int { return 404 },
	"/bytes": func(_ *conn.Request, w *conn.Response) int {
		w.SetBody([]byte("some bytes"))
		return 200
	},
	"/reader": func(_ *conn.Request, w *conn.Response) int {
		w.SetBodyReader(strings.NewReader("read"), 4)
		return 200
	},
	"/readall": func(_ *conn.Request, w *conn.Response) int {
		w.SetBodyReader(strings.NewReader("read"), -1)
		return 200
	},
	"/streamed": func(_ *conn.Request, w *conn.Response) int {
		w.WriteString("a")
		w.Flush()
		w.WriteString("b")
		return 0
	},
	"/large": func(_ *conn.Request, w *conn.Response) int {
		w.Write(make([]byte, 100<<10))
		return 200
	},
	"/declared": func(_ *conn.Request, w *conn.Response) int {
		w.Header().Set("Content-Length", "3")
		w.Flush()
		w.WriteString("abc")
		return 200
	},
	"/file": func(_ *conn.Request, w *conn.Response) int {
		f, err := os.Open("keepalive_test.go")
		if err != nil {
			return 500
		}
		w.SetBodyFile(f, 10, 20)
		return 200
	},
}

func TestHeadHasTheHeaderOfGetAndNoBody(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(bodies)})
		for path := range bodies {
			rest := path + " HTTP/1.1\r\nHost: a\r\n\r\n"
			c := s.Dial()
			send(t, c, "HEAD "+rest+"GET "+rest+"HEAD "+rest+"GET "+rest)
			all := answers(t, c.R, "HEAD", "GET", "HEAD", "GET")
			for i := range all {
				all[i].Header.Del("Date")
				if i%2 == 0 && all[i].Text != "" {
					t.Errorf("%s: HEAD has a body: %q", path, all[i].Text)
				}
				if i%2 == 1 && all[i].Text == "" && path != "/nothing" {
					t.Errorf("%s: GET has none", path)
				}
			}
			if diff := cmp.Diff(all[1].Header, all[0].Header); diff != "" {
				t.Errorf("%s: header of GET (-) and HEAD (+):\n%s", path, diff)
			}
			if all[0].ContentLength != all[1].ContentLength ||
				all[0].StatusCode != all[1].StatusCode {
				t.Errorf("%s: HEAD %s length %d, GET %s length %d", path, all[0].Status,
					all[0].ContentLength, all[1].Status, all[1].ContentLength)
			}
			c.Close()
		}
	})
}

func TestStatusesWithoutABody(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if h := bodies[req.Path()]; h != nil {
				h(req, resp)
			}
			status, _ := strconv.Atoi(req.RawQuery())
			return status
		}})
		for _, status := range []int{204, 304} {
			for path := range bodies {
				if path == "/streamed" || path == "/large" || path == "/declared" {
					continue // these have sent their 200 before they return
				}
				target := fmt.Sprint(path, "?", status)
				one := "GET " + target + " HTTP/1.1\r\nHost: a\r\n\r\n"
				got := s.Exchange(one + one + "GET " + target + " HTTP/1.0\r\n\r\n")
				for _, a := range parse(t, got, "GET", "GET", "GET") {
					if a.StatusCode != status {
						t.Errorf("%s: %s, want %d", path, a.Status, status)
					}
				}
				if strings.Contains(got, "Content-Length") ||
					strings.Contains(got, "Transfer-Encoding") {
					t.Errorf("%d %s: framing of a body that cannot be:\n%s", status, path, got)
				}
			}
		}
	}, plain, overTLS)
}

func TestTargetForms(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			fmt.Fprintf(resp, "%s %s host=%s target=%s query=%s", req.Method(), req.Path(),
				req.Host(), req.Target(), req.RawQuery())
			return 200
		}})
		rows := []struct{ raw, want string }{
			{"GET /a/./b//c/../d%20e?x=%2F HTTP/1.1\r\nHost: h:80\r\n\r\n",
				"GET /a/b/d e host=h:80 target=/a/./b//c/../d%20e?x=%2F query=x=%2F"},
			{"GET http://other:81/p?q HTTP/1.1\r\nHost: h\r\n\r\n",
				"GET /p host=other:81 target=http://other:81/p?q query=q"},
			{"GET http://other HTTP/1.1\r\nHost: h\r\n\r\n",
				"GET / host=other target=http://other query="},
			{"GET http://other?q HTTP/1.1\r\nHost: h\r\n\r\n",
				"GET / host=other target=http://other?q query=q"},
			{"TRACE / HTTP/1.0\r\nConnection: keep-alive\r\n\r\n", "TRACE / host= target=/ query="},
			{"OPTIONS /p HTTP/1.1\r\nHost: h\r\n\r\n", "OPTIONS /p host=h target=/p query="},
		}
		c := s.Dial()
		for _, row := range rows {
			if a := c.Do("GET", row.raw); a.StatusCode != 200 || a.Text != row.want {
				t.Errorf("%q: %s %q, want %q", row.raw, a.Status, a.Text, row.want)
			}
		}
		for _, raw := range []string{"OPTIONS * HTTP/1.1\r\nHost: h\r\nContent-Length: 3\r\n\r\nabc",
			"OPTIONS http://h HTTP/1.1\r\nHost: h\r\n\r\n"} {
			if a := c.Do("OPTIONS", raw); a.StatusCode != 200 ||
				a.Header.Get("Content-Length") != "0" || !strings.Contains(a.Header.Get("Allow"), "GET") {
				t.Errorf("%q: %v", raw, a.Response)
			}
		}
		a := c.Do("CONNECT", "CONNECT h:443 HTTP/1.1\r\nHost: h:443\r\n\r\n")
		if a.StatusCode != 405 || a.Header.Get("Allow") == "" || !a.Close {
			t.Errorf("CONNECT: %v", a.Response)
		}
		c.Ends()
	}, plain, direct)
}

func TestHalfClosedClientsAreAnswered(t *testing.T) {
	t.Parallel()
	h := byPath(map[string]conn.Handler{"/": hello,
		"/late": func(req *conn.Request, resp *conn.Response) int {
			req.KeepWaiting(true)
			if err := req.Sleep(30 * time.Millisecond); err != nil {
				return 500
			}
			return hello(req, resp)
		}})
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: h})
		late := "GET /late HTTP/1.1\r\nHost: a\r\n\r\n"
		for _, raw := range []string{get, get + get, strings.Repeat(get, 300), late,
			get + late + get, late + late} {
			for _, pause := range []bool{false, true} { // FIN with the last byte, and after it
				c := s.Dial()
				send(t, c, raw)
				if pause {
					s.Settle()
				}
				c.CloseWrite()
				for i, a := range parse(t, rest(t, c.R),
					make([]string, strings.Count(raw, "GET"))...) {
					if a.Text != "Hello, world!" {
						t.Errorf("answer %d: %s", i, a.Status)
					}
				}
				c.Close()
			}
		}
		// Half a request is none.
		c := s.Dial()
		send(t, c, get+"GET / HTTP/1.1\r\nHost:")
		c.CloseWrite()
		parse(t, rest(t, c.R), "GET")
		c.Close()
		s.Idle()
	})
}

func TestBodyOfAGetIsNotTheNextRequest(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		var seen paths
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			seen.add(req.Path())
			return hello(req, resp)
		}})
		for _, method := range []string{"GET", "HEAD", "DELETE", "POST"} {
			length := method + " /one HTTP/1.1\r\nHost: a\r\nContent-Length: " +
				fmt.Sprint(len(smuggled)) + "\r\n\r\n" + smuggled
			chunks := method + " /two HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
				fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(smuggled), smuggled)
			got := s.Exchange(length + chunks +
				"GET /three HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
			served := seen.take()
			if invariants.Enabled && served == "/one /two" { // the end of the chunks was held back
				if a := parse(t, got, method, method); !a[1].Close {
					t.Errorf("%s: the connection ends unannounced", method)
				}
				continue
			}
			parse(t, got, method, method, "GET")
			if served != "/one /two /three" {
				t.Errorf("%s: served %s", method, served)
			}
		}
	})
}
