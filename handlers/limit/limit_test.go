package limit_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
)

// hello reads the body and tells its length.
func hello(req *conn.Request, resp *conn.Response) int {
	n, err := io.Copy(io.Discard, req.Body())
	if err != nil {
		return 500 // the server knows better
	}
	fmt.Fprint(resp, n)
	return 200
}

func wrap(t *testing.T, set limit.Settings, next conn.Handler) conn.Handler {
	t.Helper()
	m := must.Get(limit.New(set, handlers.Env{}))(t)
	return m(next)
}

// statuses sends the same request n times and returns the statuses.
func statuses(s *server.Server, n int, line string, fields ...string) string {
	var all []string
	for range n {
		a := s.Request(line, fields, "")
		all = append(all, fmt.Sprint(a.StatusCode))
	}
	return strings.Join(all, " ")
}

func rate(t *testing.T, text string) (r limit.Rate) {
	t.Helper()
	must.Do(t, r.UnmarshalText([]byte(text)))
	return r
}

func TestNetworks(t *testing.T) {
	for _, test := range []struct {
		mode        modes.Mode
		allow, deny []string
		want        string
	}{
		{modes.Direct, []string{"127.0.0.0/8"}, nil, "200"},
		{modes.Direct, []string{"10.0.0.0/8", "::1"}, nil, "403"},
		{modes.Direct, nil, []string{"127.0.0.1"}, "403"},
		{modes.Direct, nil, []string{"10.0.0.0/8"}, "200"},
		{modes.Direct, []string{"127.0.0.0/8"}, []string{"127.0.0.1"}, "403"},
		{modes.OverUNIX, []string{"127.0.0.0/8"}, nil, "403"},
		{modes.OverUNIX, []string{"unix:"}, nil, "200"},
		{modes.OverUNIX, nil, []string{"127.0.0.0/8"}, "200"},
		{modes.OverUNIX, nil, []string{"unix:"}, "403"},
	} {
		s := module.Start(t, test.mode, "/",
			wrap(t, limit.Settings{Allow: test.allow, Deny: test.deny}, hello))
		if got := statuses(s, 1, "GET /"); got != test.want {
			t.Errorf("%v: %s", test, got)
		}
	}
}

func TestMethods(t *testing.T) {
	s := module.Start(t, modes.Direct, "/",
		wrap(t, limit.Settings{Methods: []string{"GET", "OPTIONS"}}, hello))
	for line, want := range map[string]int{
		"GET /": 200, "HEAD /": 200, "OPTIONS /": 200, "POST /": 405, "DELETE /": 405,
	} {
		a := s.Request(line, nil, "")
		allow := a.Header.Get("Allow")
		if a.StatusCode != want || (want == 405) != (allow == "GET, HEAD, OPTIONS") {
			t.Errorf("%s: %s, Allow %q", line, a.Status, allow)
		}
	}
}

// TestMaxBodySize: the innermost limit counts, whether it is the larger or the smaller one, and no
// client is asked for a body that is too large.
func TestMaxBodySize(t *testing.T) {
	inner := wrap(t, limit.Settings{MaxBodySize: 20}, hello)
	outer := wrap(t, limit.Settings{MaxBodySize: 5}, func(req *conn.Request, w *conn.Response) int {
		switch req.Path() {
		case "/inner":
			return inner(req, w)
		case "/blind":
			return 200
		}
		return hello(req, w)
	})
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		s := server.Start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: 10}, LargestBodySize: 25,
			Handler: func(req *conn.Request, w *conn.Response) int {
				if req.Path() == "/server" {
					return hello(req, w)
				}
				return outer(req, w)
			}})
		for _, test := range []struct {
			path string
			size int
			want string
		}{
			{"/server", 10, "200 10"}, {"/server", 11, "413"}, {"/server", 26, "413"},
			{"/outer", 5, "200 5"}, {"/outer", 6, "413"}, {"/outer", 15, "413"},
			{"/blind", 6, "413"}, // its limit is not that of the handler's reading
			{"/inner", 6, "200 6"}, {"/inner", 20, "200 20"}, {"/inner", 21, "413"}, {"/inner", 26, "413"},
		} {
			body := strings.Repeat("x", test.size)
			length := fmt.Sprint("Content-Length: ", test.size)
			chunked := fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", test.size, body)
			for way, a := range map[string]server.Answer{
				"length":  s.Request("POST "+test.path, []string{length}, body),
				"chunked": s.Request("POST "+test.path, []string{"Transfer-Encoding: chunked"}, chunked),
			} {
				got := fmt.Sprint(a.StatusCode)
				if a.StatusCode == 200 {
					got += " " + a.Text
				}
				if way == "chunked" && test.path == "/blind" {
					continue // nothing has read how long it is
				}
				if got != test.want {
					t.Errorf("%s, %d bytes by %s: %s, want %s", test.path, test.size, way, got, test.want)
				}
			}
			c := s.Dial()
			c.Send("POST " + test.path + " HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n" + length +
				"\r\n\r\n")
			want := "HTTP/1.1 " + strings.SplitN(test.want, " ", 2)[0]
			if strings.HasPrefix(test.want, "200") {
				want = "HTTP/1.1 100"
			}
			line, err := c.R.ReadString('\n')
			if err != nil || !strings.HasPrefix(line, want) {
				t.Errorf("%s, %d bytes expected: %q, %v, want %s", test.path, test.size, line, err, want)
			}
			c.Close()
		}
	})
}

// TestBodyTimeout: a route may give its clients more time than its site, and that more than the
// server.
func TestBodyTimeout(t *testing.T) {
	inner := wrap(t, limit.Settings{BodyTimeout: time.Hour}, hello)
	outer := wrap(t, limit.Settings{BodyTimeout: time.Minute},
		func(req *conn.Request, w *conn.Response) int {
			if req.Path() == "/inner" {
				return inner(req, w)
			}
			return hello(req, w)
		})
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		entered := make(chan bool, 1)
		s := server.Start(t, m, conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			entered <- true
			if req.Path() == "/server" {
				return hello(req, w)
			}
			return outer(req, w)
		}})
		for _, test := range []struct {
			path    string
			silence time.Duration
			status  int
		}{{"/server", 5 * time.Second, 200}, {"/server", 40 * time.Second, 408},
			{"/outer", 40 * time.Second, 200},
			{"/outer", 70 * time.Second, 408}, {"/inner", 70 * time.Second, 200}} {
			c := s.Dial()
			c.Send("POST " + test.path + " HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\n")
			<-entered
			s.Skip(test.silence)
			if test.status == 200 {
				c.Send("1234567890")
			} else {
				// HTTP/2 forgives what was waited before the kernel had the acknowledgement of the last
				// frame, which is a moment, but may be all of a skipped time.
				s.Skip(test.silence)
				s.Skip(test.silence)
			}
			if a := c.Answer("POST"); a.StatusCode != test.status {
				t.Errorf("%s, %v: %s", test.path, test.silence, a.Status)
			}
			c.Close()
		}
	})
}

func TestRequests(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		h := wrap(t, limit.Settings{Requests: rate(t, "4/h"), Burst: 3}, hello)
		s := module.Start(t, m, "/", h)
		if got := statuses(s, 5, "GET /"); got != "200 200 200 429 429" {
			t.Error(got)
		}
		a := s.Request("GET /", nil, "")
		text := a.Header.Get("Retry-After")
		if n, err := strconv.Atoi(text); err != nil || n > 900 || n < 800 {
			t.Errorf("Retry-After: %s", text)
		}
	}, modes.Direct, modes.Several)
}

// TestByField: each value of the field has a rate of its own, and so has the address of a client
// without one.
func TestByField(t *testing.T) {
	h := wrap(t, limit.Settings{Requests: rate(t, "1/h"), By: "header:X-Api-Key"}, hello)
	s := module.Start(t, modes.Direct, "/", h)
	for _, fields := range [][]string{{"x-api-key: a"}, {"X-Api-Key: b"}, nil} {
		if got := statuses(s, 2, "GET /", fields...); got != "200 429" {
			t.Errorf("%q: %s", fields, got)
		}
	}
	if got := statuses(s, 1, "GET /", "X-Api-Key:"); got != "429" { // stands for nothing
		t.Errorf("an empty field: %s", got)
	}
}

// TestByText: the requests with the same text are counted together, whatever client they are of.
func TestByText(t *testing.T) {
	h := wrap(t, limit.Settings{Requests: rate(t, "1/h"), By: "{host}{field.X-Api-Key}"}, hello)
	s := module.Start(t, modes.Direct, "/", h)
	for _, test := range []struct{ host, key, want string }{
		{"a", "1", "200 429"}, {"A:81", "1", "429 429"}, {"a", "2", "200 429"}, {"b", "1", "200 429"},
		{"a", "", "200 429"}, {"a1", "", "200 429"},
	} {
		c := s.Dial()
		var got []string
		for range 2 {
			a := c.Do("GET", "GET / HTTP/1.1\r\nHost: "+test.host+"\r\nX-Api-Key: "+test.key+"\r\n\r\n")
			got = append(got, strconv.Itoa(a.StatusCode))
		}
		if strings.Join(got, " ") != test.want {
			t.Errorf("%s, %s: %s", test.host, test.key, got)
		}
	}
}

// Several fields are one with all the values, as for applications: a client that sends another
// field behind or in front is not the one that sends the first, or the last, alone.
func TestByFields(t *testing.T) {
	h := wrap(t, limit.Settings{Requests: rate(t, "1/h"), By: "header:X-Api-Key"}, hello)
	s := module.Start(t, modes.Direct, "/", h)
	for _, fields := range [][]string{
		{"X-Api-Key: a"}, {"X-Api-Key: a", "X-Other: x", "x-api-key: b"}, {"X-Api-Key: b"},
		{"X-Api-Key: b", "X-Api-Key: a"},
	} {
		if got := statuses(s, 2, "GET /", fields...); got != "200 429" {
			t.Errorf("%q: %s", fields, got)
		}
	}
	if got := statuses(s, 1, "GET /", "X-Api-Key: a", "X-Api-Key: b"); got != "429" {
		t.Error(got)
	}
}

// TestConnections: a request counts until its answer is complete, whatever its handler does.
func TestConnections(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		entered, leave := make(chan bool, 3), make(chan bool)
		s := module.Start(t, m, "/", wrap(t, limit.Settings{Connections: 2},
			func(req *conn.Request, resp *conn.Response) int {
				switch req.Path() {
				case "/panic":
					panic("a test")
				case "/wait":
					entered <- true
					_ = req.Await(time.Minute, func(context.Context) error { <-leave; return nil })
				}
				return 200
			}))
		s.Panics.Expect()
		wait := "GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"
		a, b := s.Dial(), s.Dial()
		a.Send(wait)
		b.Send(wait)
		<-entered
		<-entered
		refused := s.Request("GET /", nil, "")
		if refused.StatusCode != 429 || refused.Header.Get("Retry-After") != "1" {
			t.Errorf("a third: %s", refused.Status)
		}
		leave <- true
		leave <- true
		for _, c := range []*server.Client{a, b} {
			if got := c.Answer("GET"); got.StatusCode != 200 {
				t.Error(got.Status)
			}
		}
		for range 3 { // each would hold its place if a panic did not give it back
			s.Request("GET /panic", nil, "")
		}
		if got := statuses(s, 3, "GET /"); got != "200 200 200" {
			t.Error(got)
		}
	}, modes.Direct, modes.Several)
}

func TestErrors(t *testing.T) {
	for _, test := range []struct {
		set  limit.Settings
		want string
	}{
		{limit.Settings{}, `requests: missing; expected at least one limit, such as requests = "10/s"`},
		{limit.Settings{Allow: []string{}}, "allow: expected at least one network"},
		{limit.Settings{Deny: []string{"10.0.0.1/8"}},
			`deny: "10.0.0.1/8" is no network: that one begins at 10.0.0.0/8`},
		{limit.Settings{Methods: []string{}},
			"methods: expected at least one, such as GET"},
		{limit.Settings{Methods: []string{"get"}},
			`methods: expected methods in upper case, such as GET, found "get"`},
		{limit.Settings{Burst: 3}, `burst: needs the key requests, such as requests = "10/s"`},
		{limit.Settings{Delay: 3, Connections: 1},
			`delay: needs the key requests, such as requests = "10/s"`},
		{limit.Settings{Requests: rate(t, "10/h"), Delay: 3},
			"delay: the last one would wait for 18m0s; expected 1m0s at most"},
		{limit.Settings{BandwidthAfter: 1, Connections: 1}, "bandwidth_after: needs the key bandwidth"},
		{limit.Settings{DryRun: true, Bandwidth: 1 << 20},
			"dry_run: needs the key requests or connections"},
		{limit.Settings{By: "address"}, "by: needs the key requests or connections"},
		{limit.Settings{By: "cookie:x", Connections: 1}, `by: expected "address", ` +
			`"everybody", a text with placeholders, such as "{host}{field.X-Api-Key}", or "header:" ` +
			`and the name of a header field, found "cookie:x"`},
		{limit.Settings{By: "header:", Connections: 1}, `by: expected "address", ` +
			`"everybody", a text with placeholders, such as "{host}{field.X-Api-Key}", or "header:" ` +
			`and the name of a header field, found "header:"`},
	} {
		_, err := limit.New(test.set, handlers.Env{})
		var bad *handlers.KeyError
		if !errors.As(err, &bad) || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}

// TestCost: a limit that does not count connections allocates nothing.
func TestCost(t *testing.T) {
	ci.Without(t, race.Enabled, "sync.Pool drops things at random under the race detector")
	h := wrap(t, limit.Settings{Deny: []string{"10.0.0.0/8"}, Methods: []string{"GET"}, MaxBodySize: 5,
		Requests: rate(t, "1000000/s")}, func(*conn.Request, *conn.Response) int { return 200 })
	s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
		fmt.Fprint(resp, testing.AllocsPerRun(100, func() {
			if h(req, resp) != 200 {
				panic("refused")
			}
		}))
		return 200
	})
	if a := s.Request("GET /", nil, ""); a.Text != "0" {
		t.Errorf("%s, %q allocations", a.Status, a.Text)
	}
}
