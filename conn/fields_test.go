package conn_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// seen is a field as each way of reading shows it.
func seen(req *conn.Request, name string) string {
	view, ok := req.Layer().HeaderView(name)
	next, others := 0, []string{}
	for {
		var v []byte
		if v, next = req.Layer().HeaderViewFrom(name, next); next < 0 {
			break
		}
		others = append(others, string(v))
	}
	return fmt.Sprintf("%q %v %q %q %q %d", view, ok, others, req.Layer().AppendHeaderViews(nil, name),
		req.Header().Values(name), req.Header().Len())
}

// TestChangedHeader: what a handler changes in the header is what everything shows from then on,
// also if no field is left: middleware takes X-User away from clients.
func TestChangedHeader(t *testing.T) {
	const old, modern = "GET / HTTP/1.0\r\nX-User: root\r\n\r\n",
		"GET / HTTP/1.1\r\nHost: a\r\nX-User: root\r\nx-user: boss\r\n\r\n"
	set := func(h *conn.Header) { h.Set("X-User", "me") }
	del := func(h *conn.Header) { h.Del("x-user") }
	for _, row := range []struct {
		raw    string
		change func(h *conn.Header)
		want   string
	}{
		{old, func(h *conn.Header) {}, `"root" true ["root"] ["root"] ["root"] 1`},
		{old, del, `"" false [] [] [] 0`},
		{old, set, `"me" true ["me"] ["me"] ["me"] 1`},
		{old, func(h *conn.Header) { del(h); h.Add("X-User", "") }, `"" true [""] [""] [""] 1`},
		{modern, func(h *conn.Header) {},
			`"root" true ["root" "boss"] ["root" "boss"] ["root" "boss"] 3`},
		{modern, del, `"" false [] [] [] 1`},
		{modern, func(h *conn.Header) { del(h); h.Del("host") }, `"" false [] [] [] 0`},
		{modern, set, `"me" true ["me"] ["me"] ["me"] 2`},
	} {
		var got, inside, asked, back string
		s := start(t, plain, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if view, _ := req.Layer().HeaderView("X-User"); string(view) != "root" {
				t.Errorf("%q at first", view)
			}
			row.change(req.Header())
			got = seen(req, "X-User")
			look := func(text *string) conn.Handler {
				return func(req *conn.Request, _ *conn.Response) int {
					*text = seen(req, "X-User")
					req.Header().Set("X-User", "another")
					return 204
				}
			}
			req.Layer().Instead("/page", resp, look(&inside))
			if _, _, err := req.Subrequest("/ask", look(&asked)); err != nil {
				t.Error(err)
			}
			back = seen(req, "X-User")
			return 204
		}})
		if a := s.Dial().Do("GET", row.raw); a.StatusCode != 204 {
			t.Errorf("%d", a.StatusCode)
		}
		s.Settle()
		for _, text := range []string{got, inside, asked, back} {
			if text != row.want {
				t.Errorf("%q: %s; want %s", row.raw, text, row.want)
			}
		}
	}
}

// TestChangedHeaderEndsWithTheRequest: the next request on the connection has its own.
func TestChangedHeaderEndsWithTheRequest(t *testing.T) {
	s := start(t, plain, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		fmt.Fprint(resp, seen(req, "X-A"))
		req.Header().Del("X-A")
		req.Header().Del("Host")
		return 200
	}})
	one := "GET / HTTP/1.1\r\nHost: a\r\nX-A: b\r\n\r\n"
	for _, a := range parse(t,
		s.Exchange(one+one+strings.Replace(one, "Host", "Connection: close\r\nHost", 1)), "GET", "GET",
		"GET") {
		if !strings.HasPrefix(a.Text, `"b" true ["b"] ["b"] ["b"] `) {
			t.Errorf("%s", a.Text)
		}
	}
}

// TestViewOfUsedCredentials: what the server has used is not in the header of applications, but a
// second layer of auth finds it, also after the first has looked at the header.
func TestViewOfUsedCredentials(t *testing.T) {
	const field = "Authorization"
	for _, early := range []bool{false, true} {
		s := start(t, plain, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if early {
				req.Header()
			}
			req.Layer().SetUser("me", "Basic")
			fmt.Fprintf(resp, "%q ", req.Header().Values(field))
			view, _ := req.Layer().HeaderView(field)
			resp.Write(view)
			return 200
		}})
		a := s.Dial().Do("GET", "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Basic x\r\n\r\n")
		if a.Text != "[] Basic x" {
			t.Errorf("%s", a.Text)
		}
	}
}

// TestChangedHeaderAfterHijack: a request that gives up its buffers keeps what was changed.
func TestChangedHeaderAfterHijack(t *testing.T) {
	for _, change := range []bool{false, true} {
		got := make(chan string, 1)
		s := start(t, plain, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			if req.Header(); change {
				req.Header().Del("x-user")
				req.Header().Set("X-B", "c")
			}
			c, _, err := resp.Hijack()
			if err != nil {
				t.Error(err)
				return 500
			}
			got <- seen(req, "X-User") + " " + seen(req, "X-B")
			_ = c.Close()
			return 0
		}})
		_ = s.Exchange("GET / HTTP/1.1\r\nHost: a\r\nX-User: root\r\nX-B: b\r\n\r\n")
		want := `"root" true ["root"] ["root"] ["root"] 3 "b" true ["b"] ["b"] ["b"] 3`
		if change {
			want = `"" false [] [] [] 2 "c" true ["c"] ["c"] ["c"] 2`
		}
		if text := <-got; text != want {
			t.Errorf("%s; want %s", text, want)
		}
	}
}

// TestViewsDoNotAllocate: neither views of the head nor views of the list do.
func TestViewsDoNotAllocate(t *testing.T) {
	s := start(t, plain, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		for range 2 {
			if n := testing.AllocsPerRun(100, func() { req.Layer().HeaderView("X-A") }); n != 0 {
				t.Errorf("%v allocations", n)
			}
			req.Header()
		}
		return 204
	}})
	s.Dial().Do("GET", "GET / HTTP/1.1\r\nHost: a\r\nX-A: "+strings.Repeat("b", 100)+"\r\n\r\n")
}

// TestStringsCopyLittle: whoever asks for parts of the target has no copy of the fields made, and
// strings of both remain what they were.
func TestStringsCopyLittle(t *testing.T) {
	large := strings.Repeat("b", 12<<10)
	s := start(t, plain, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		query, target := req.RawQuery(), req.Target()
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n >= 6<<10 {
			t.Errorf("%d bytes were allocated for a query", n)
		}
		host, method := req.Host(), req.Method()
		field := req.Header().Get("X-A")
		for _, s := range [][2]string{{query, "c=d"}, {target, "/p?c=d"}, {host, "a"}, {method, "MAKE"},
			{field, large}, {req.RawQuery(), "c=d"}} {
			if s[0] != s[1] {
				t.Errorf("got %.20q, want %.20q", s[0], s[1])
			}
		}
		return 204
	}})
	a := s.Dial().Do("MAKE", "MAKE /p?c=d HTTP/1.1\r\nHost: a\r\nX-A: "+large+"\r\n\r\n")
	if a.StatusCode != 204 {
		t.Error(a.Status)
	}
}
