package proxy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
)

// says starts an upstream that answers with a letter.
func says(t *testing.T, letter string) string {
	return start(t, always("HTTP/1.1 200 OK\r\nContent-Length: 1\r\n\r\n"+letter)).addr
}

// askers sends a request for each of n users, and returns what has answered each.
func askers(t *testing.T, f *front, n int) string {
	t.Helper()
	c := f.Dial()
	defer c.Close()
	var all strings.Builder
	for i := range n {
		fmt.Fprintf(c, "GET / HTTP/1.1\r\nHost: test.example\r\nX-User: user-%d\r\n\r\n", i)
		g := read(c.R, "GET")
		if g.status != 200 {
			t.Fatal(g)
		}
		all.WriteString(g.body)
	}
	return all.String()
}

// TestSplit: shares are for as many users, each of whom stays where it is: over a new start, and
// when an entry comes behind the others. Requests without the key are the route's.
func TestSplit(t *testing.T) {
	main, b, c := says(t, "a"), says(t, "b"), says(t, "c")
	begin := func(entries ...upstreams.Split) *front {
		return serve(t, modes.Direct, "/", []string{main}, func(s *proxy.Settings) {
			s.Split, s.SplitBy, s.IdleTimeout = entries, "{field.x-user}", time.Second
		})
	}
	beta := upstreams.Split{Name: "beta", Share: 10, Address: []string{b}}
	const users = 1500
	first := askers(t, begin(beta), users)
	if n := strings.Count(first, "b"); n < users*7/100 || n > users*13/100 {
		t.Errorf("%d of %d users, want a tenth", n, users)
	}
	if again := askers(t, begin(beta), users); again != first {
		t.Error("users have changed sides")
	}
	f := begin(beta, upstreams.Split{Name: "gamma", Share: 33.3, Address: []string{c}})
	more := askers(t, f, users)
	if n := strings.Count(more, "c"); n < users*28/100 || n > users*38/100 {
		t.Errorf("%d of %d users, want a third", n, users)
	}
	if strings.ReplaceAll(more, "c", "a") != first {
		t.Error("an entry behind it has changed the first one's users")
	}
	for range 5 {
		if g := f.get("/"); g.body != "a" {
			t.Error("no user: ", g.body)
		}
	}
}

// TestSplitByValue: a cookie or a field that asks for an entry leads there, and all shares together
// may be everything.
func TestSplitByValue(t *testing.T) {
	f := serve(t, modes.Direct, "/", []string{says(t, "a")}, func(s *proxy.Settings) {
		s.IdleTimeout = time.Second
		s.Split = []upstreams.Split{
			{Name: "beta", Cookie: map[string]string{"v": "beta"}, Header: map[string]string{"X-V": "2"},
				Address: []string{says(t, "b")}},
			{Name: "all", Share: 100, Address: []string{says(t, "c")}},
		}
	})
	for fields, want := range map[string]string{
		"": "c", "Cookie: v=beta\r\n": "b", "Cookie: v=betamax\r\n": "c", "X-V: 2\r\n": "b",
		"X-V: 3\r\nCookie: w=beta; v=beta\r\n": "b",
	} {
		if g := f.ask("GET /", fields, ""); g.body != want {
			t.Errorf("%q leads to %s, want %s", fields, g.body, want)
		}
	}
}

// TestSplitKeys: what is wrong is said at the start.
func TestSplitKeys(t *testing.T) {
	x := []string{"127.0.0.1:2"}
	for _, tt := range []struct {
		split []upstreams.Split
		by    string
		err   string
	}{
		{nil, "{host}", "split_by: it has no effect without split"},
		{[]upstreams.Split{{Name: "b", Share: 1, Address: x}}, "{nobody}",
			`split_by: "{nobody}": unknown placeholder {nobody} ` + known},
		{[]upstreams.Split{{Share: 1, Address: x}}, "",
			`split: name: expected a word, such as "beta", not ""`},
		{[]upstreams.Split{{Name: "b", Share: 101, Address: x}}, "",
			`split: b: share: expected percent between 0 and 100, not 101`},
		{[]upstreams.Split{{Name: "b", Share: -1, Address: x}}, "",
			`split: b: share: expected percent between 0 and 100, not -1`},
		{[]upstreams.Split{{Name: "b", Share: 60, Address: x}, {Name: "c", Share: 60.5, Address: x}}, "",
			`split: the shares are 120.5 percent together; expected 100 at most`},
		{[]upstreams.Split{{Name: "b", Share: 1, Address: x}, {Name: "b", Share: 1, Address: x}}, "",
			`split: b: named twice`},
		{[]upstreams.Split{{Name: "b", Share: 1, Address: x}, {Name: "c", Share: 1, Address: x}}, "",
			`split: c: address: 127.0.0.1:2: named twice`},
		{[]upstreams.Split{{Name: "b", Share: 1, Address: []string{"127.0.0.1:1 weight=2"}}}, "",
			`split: b: address: 127.0.0.1:1: named twice`},
		{[]upstreams.Split{{Name: "b", Address: x}}, "",
			`split: b: expected a share, or values of a cookie or a field`},
		{[]upstreams.Split{{Name: "b", Share: 1}}, "", `split: b: address: missing`},
		{[]upstreams.Split{{Name: "b", Share: 1, Address: []string{" "}}}, "",
			`split: b: address: expected unix:/path or host:port`},
		{[]upstreams.Split{{Name: "b", Share: 1, Address: []string{"a:1 backup"}}}, "",
			`split: b: address: every address is a backup`},
		{[]upstreams.Split{{Name: "b", Cookie: map[string]string{"a b": "c"}, Address: x}}, "",
			`split: b: cookie: expected the name of one, not "a b"`},
		{[]upstreams.Split{{Name: "b", Cookie: map[string]string{"a": ""}, Address: x}}, "",
			`split: b: cookie: a: expected a value`},
		{[]upstreams.Split{{Name: "b", Header: map[string]string{"a b": "c"}, Address: x}}, "",
			`split: b: header: expected the name of a field, not "a b"`},
	} {
		_, err := module.Build(t, proxy.Register, "proxy", handlers.Env{Prefix: "/"},
			func(s *proxy.Settings) {
				s.Address, s.Split = []string{"127.0.0.1:1"}, tt.split
				if tt.by != "" {
					s.SplitBy = tt.by
				}
			})
		if err == nil || err.Error() != tt.err {
			t.Errorf("%v, want %s", err, tt.err)
		}
	}
}
