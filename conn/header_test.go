package conn_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/lwango/lwango/conn"
)

// TestBadFieldsAreNotSent: what a client put into a header value must not become a header, or a
// response, of its own.
func TestBadFieldsAreNotSent(t *testing.T) {
	fields := []conn.Field{
		{Name: "X-A", Value: "a\r\nInjected: b"},
		{Name: "X-A", Value: "a\nInjected: b"},
		{Name: "X-A", Value: "a\rInjected: b"},
		{Name: "X-A", Value: "a\r\n\r\nHTTP/1.1 200 Injected\r\n\r\n"},
		{Name: "X-A", Value: "a\x00Injected"},
		{Name: "X-A", Value: "Injected\x7f"},
		{Name: "X-A\r\nInjected", Value: "b"},
		{Name: "Injected ", Value: "b"},
		{Name: "Injected:", Value: "b"},
		{Name: "Injecteд", Value: "b"},
		{Name: "", Value: "Injected"},
		{Name: "Connection", Value: "a\r\nInjected: b"}, // also in fields that are not copied
	}
	ways := map[string]func(w *conn.Response){
		"/gathered": func(w *conn.Response) { w.WriteString("Injected") },
		"/flushed":  func(w *conn.Response) { w.WriteString("Injected"); w.Flush() },
		"/streamed": func(w *conn.Response) { w.Write(make([]byte, 100<<10)) },
		"/bytes":    func(w *conn.Response) { w.SetBody([]byte("Injected")) },
		"/reader":   func(w *conn.Response) { w.SetBodyReader(strings.NewReader("Injected"), -1) },
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			i, _ := strconv.Atoi(req.RawQuery())
			resp.Header().Add(fields[i].Name, fields[i].Value)
			ways[req.Path()](resp)
			return 200
		}})
		for i, field := range fields {
			for path := range ways {
				before := strings.Count(s.Log.String(), "header refused")
				one := fmt.Sprintf("GET %s?%d HTTP/1.0\r\n", path, i)
				got := s.Exchange(one + "Connection: keep-alive\r\n\r\n" + one +
					"Connection: keep-alive\r\n\r\n" + one + "\r\n")
				for _, a := range parse(t, got, "GET", "GET", "GET") {
					if a.StatusCode != 500 || strings.Contains(got, "Injected") {
						t.Errorf("%s: %q: %q: %s", path, field.Name, field.Value, got)
					}
				}
				if lines := strings.Count(s.Log.String(), "header refused") - before; lines != 3 {
					t.Errorf("%s: %q: %q: %d log lines for 3 requests", path, field.Name,
						field.Value, lines)
				}
			}
		}
	}, plain)
}

func TestLegalFieldsPass(t *testing.T) {
	values := []string{"a: b; c=d, \"e\" (f)", "http://a:80/?b=c;d", "", "ü \xff", "a\tb",
		strings.Repeat("long ", 5000) + "."}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			for _, v := range values {
				resp.Header().Add("x-a", v)
			}
			return hello(req, resp)
		}})
		a := s.Dial().Do("GET", get)
		if diff := cmp.Diff(values, a.Header.Values("X-A")); diff != "" {
			t.Error(diff)
		}
	}, plain, overTLS)
}

func TestConfiguredFieldsGiveWayToTheHandlers(t *testing.T) {
	cfg := conn.Config{Headers: []conn.Field{{Name: "Server", Value: "configured"},
		{Name: "X-B", Value: "b"}, {Name: "Bad", Value: "a\nb"}}}
	cfg.Handler = func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/own" {
			resp.Header().Set("SERVER", "own")
		}
		resp.WriteString("x")
		return 200
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, cfg)
		c := s.Dial()
		for path, want := range map[string]string{"/own": "own", "/": "configured"} {
			a := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
			if got := a.Header.Values("Server"); len(got) != 1 || got[0] != want ||
				a.Header.Get("X-B") != "b" || a.Header.Get("Bad") != "" {
				t.Errorf("%s: %v", path, a.Header)
			}
		}
		if !strings.Contains(s.Log.String(), "configured header left out") {
			t.Errorf("log: %s", s.Log)
		}
		// Configure counts from the next request on, also on connections that are open.
		cfg.Headers, cfg.Logger = []conn.Field{{Name: "Server", Value: "new"}}, nil
		s.Configure(cfg)
		if a := c.Do("GET", get); a.Header.Get("Server") != "new" {
			t.Errorf("after Configure: %v", a.Header)
		}
		// A refusal has them too.
		if a := c.Do("GET", "BAD\r\n"); a.StatusCode != 400 || a.Header.Get("Server") != "new" ||
			a.Header.Get("Date") == "" {
			t.Errorf("refusal: %v", a.Response)
		}
	}, plain)
}

// TestRelayedDate: the date of a relayed answer takes the place of the server's, and of no
// configured field beside it.
func TestRelayedDate(t *testing.T) {
	const date = "Thu, 01 Jan 1970 00:00:00 GMT"
	cfg := conn.Config{Headers: []conn.Field{{Name: "Server", Value: "configured"},
		{Name: "X-B", Value: "b"}}}
	cfg.Handler = func(req *conn.Request, resp *conn.Response) int {
		resp.Layer().Relay(200, "")
		if req.Path() != "/undated" {
			resp.Header().Set("Date", date)
		}
		if req.Path() == "/own" {
			resp.Header().Set("Server", "own")
		}
		return 200
	}
	run(t, func(t *testing.T, m mode) {
		c := start(t, m, cfg).Dial()
		for path, server := range map[string]string{"/": "configured", "/own": "own",
			"/undated": "configured"} {
			h := c.Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n").Header
			dates := h.Values("Date")
			if len(dates) != 1 || (dates[0] == date) != (path != "/undated") ||
				!slices.Equal(h.Values("Server"), []string{server}) ||
				!slices.Equal(h.Values("X-B"), []string{"b"}) {
				t.Errorf("%s: %v", path, h)
			}
		}
	})
}

func TestTheServersOwnFields(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			h := resp.Header()
			h.Set("Date", "yesterday")
			h.Set("Transfer-Encoding", "gzip")
			h.Set("Content-Length", "99")
			h.Set("Keep-Alive", "max=1")
			h.Set("Connection", "keep-alive")
			resp.WriteString("body")
			return 200
		}})
		c := s.Dial()
		for range 2 {
			a := c.Do("GET", get)
			if a.Text != "body" || a.ContentLength != 4 || len(a.TransferEncoding) > 0 ||
				a.Header.Get("Keep-Alive") != "" ||
				strings.Contains(a.Header.Get("Date"), "yesterday") {
				t.Errorf("%v %q", a.Response, a.Text)
			}
		}
	}, plain)
}

// TestDateAfterSilence: the cached text must not be that of the second in which the loop fell
// asleep.
func TestDateAfterSilence(t *testing.T) {
	t.Parallel()
	s := start(t, plain, conn.Config{Handler: hello})
	c := s.Dial()
	for i := range 2 {
		if i > 0 {
			time.Sleep(1200 * time.Millisecond) // into another second
		}
		earliest := time.Now().Truncate(time.Second)
		a := c.Do("GET", get)
		date, err := time.Parse(time.RFC1123, a.Header.Get("Date"))
		if err != nil || date.Before(earliest) || date.After(time.Now()) ||
			!strings.HasSuffix(a.Header.Get("Date"), " GMT") {
			t.Errorf("Date %q between %v and %v: %v", a.Header.Get("Date"), earliest, time.Now(),
				err)
		}
	}
}

func TestRequestFields(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			h := req.Header()
			var all []string
			for name, value := range h.All() {
				all = append(all, name+"="+value)
			}
			fmt.Fprintf(resp, "%q %d %q %s %v %s tls=%v from %v to %v length=%d q=%q", all, h.Len(),
				h.Values("x-MULTI"), h.Get("x-multi"), h.Has("none"),
				req.Proto(), req.TLS() != nil, req.RemoteAddr().Addr(), req.LocalAddr(),
				req.ContentLength(), req.Query().Get("q"))
			return 200
		}})
		got := s.Dial().Do("GET",
			"GET /?q=1%202 HTTP/1.1\r\nHost: a\r\nX-Multi: one\r\nEmpty:\r\nx-multi:\ttwo \r\n\r\n").Text
		want :=
			fmt.Sprintf(
				`["Host=a" "X-Multi=one" "Empty=" "x-multi=two"] 4 ["one" "two"] one false HTTP/1.1 tls=%v from 127.0.0.1 to %s length=0 q="1 2"`, m.TLS, s.Addr)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Error(diff)
		}
	}, http1...)
}

// TestFieldViews: the views are of the client's fields, and of the list once a handler has asked
// for it. What the server has used itself is in neither.
func TestFieldViews(t *testing.T) {
	for _, tt := range []struct {
		why    string
		change func(req *conn.Request)
		want   string
	}{
		{"the client's", func(*conn.Request) {}, "Host=a X-One=1 Empty= Authorization=Basic eDp5"},
		{"of a list", func(req *conn.Request) { req.Header().Set("x-two", "2") },
			"Host=a X-One=1 Empty= Authorization=Basic eDp5 x-two=2"},
		{"without a password", func(req *conn.Request) { req.Layer().SetUser("x", "Basic") },
			"Host=a X-One=1 Empty="},
	} {
		s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			tt.change(req)
			var all []string
			for v, i := req.Layer().FieldViews(), 0; i < v.Len(); i++ {
				name, value := v.Strings(i)
				if n, b, _ := v.At(i); string(n) != name || string(b) != value {
					t.Errorf("%s: %q=%q, and by At %q=%q", tt.why, name, value, n, b)
				}
				all = append(all, name+"="+value)
			}
			resp.WriteString(strings.Join(all, " "))
			return 200
		}})
		got := s.Dial().Do("GET",
			"GET / HTTP/1.1\r\nHost: a\r\nX-One:\t1 \r\nEmpty:\r\nAuthorization: Basic eDp5\r\n\r\n").Text
		if got != tt.want {
			t.Errorf("%s: %q, want %q", tt.why, got, tt.want)
		}
	}
}

// TestEachFieldIsLookedAt: a Header remembers which fields it has looked at, and finds each one
// that is not valid, however the fields change in between.
func TestEachFieldIsLookedAt(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		var h conn.Header
		for range 30 {
			name, value := string(rune('a'+random.IntN(5))), "good"
			if random.IntN(4) == 0 {
				value = "bad\n"
			}
			switch random.IntN(6) {
			case 5: // for fields that replace others, of which there may be several
				n := h.Len()
				h.Set(name, "good")
				h.Set("other", "good")
				conn.MarkValid(&h, n)
			case 4: // for the new field alone
				n := h.Len()
				h.Add(name, "good")
				conn.MarkValid(&h, n)
			case 0:
				h.Add(name, value)
			case 1:
				h.Set(name, value)
			case 2:
				h.Del(name)
			default:
				want := ""
				for name, value := range h.All() {
					if value != "good" {
						want = name + value
						break
					}
				}
				got := ""
				if f := conn.FirstBad(&h); f != nil {
					got = f.Name + f.Value
				}
				if got != want {
					t.Fatalf("%v: found %q, want %q", h, got, want)
				}
			}
		}
	}
}
