package conn_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// underHTTP starts a server of net/http with h.
func underHTTP(t *testing.T, h http.Handler) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.Config.ErrorLog = log.New(io.Discard, "", 0)
	s.Start()
	t.Cleanup(s.Close)
	return s
}

// dialHTTP connects to a server of net/http.
func dialHTTP(t *testing.T, s *httptest.Server) *client {
	t.Helper()
	c := must.Dial(t, "tcp", s.Listener.Addr().String())
	t.Cleanup(func() { c.Close() })
	return server.NewClient(t, c)
}

// TestToHTTPCounts: requests under net/http leave the budget of descriptors as it was.
func TestToHTTPCounts(t *testing.T) {
	s := underHTTP(t, conn.ToHTTP(conn.Handler(hello)))
	const requests, others = 50, 10 // connections of tests before may end only now
	before := openfiles.Process.Connections()
	for range requests {
		c := dialHTTP(t, s)
		if a := c.Do("GET", get); a.StatusCode != 200 {
			t.Error(a.StatusCode)
		}
		c.Close()
	}
	wait.Until(t, "all are given back", func() bool { return openfiles.Process.Connections() <= before })
	if after := openfiles.Process.Connections(); after < before-others {
		t.Errorf("%d connections are counted behind %d requests, %d before", after, requests, before)
	}
}

// TestToHTTPSame: requests have the same answers under net/http and behind a Server.
func TestToHTTPSame(t *testing.T) {
	h := conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		switch req.Path() {
		case "/facts":
			fmt.Fprintf(resp, "%s %s %s %q %s %t %d\n", req.Method(), req.Target(), req.Proto(),
				req.RawQuery(), req.Host(), req.Secure(), req.ContentLength())
			fmt.Fprintln(resp, req.RemoteAddr().Addr(), req.PeerAddr().Addr(),
				req.LocalAddr().Addr(), req.TLS() != nil, req.Header().Values("X-Two"))
			return 200
		case "/echo":
			req.Body().KeepTrailer()
			body, err := io.ReadAll(req.Body())
			fmt.Fprintf(resp, "%q %v", body, err)
			req.Body().Trailer(func(name, value string) { fmt.Fprint(resp, " ", name, "=", value) })
			return 201
		case "/trailer":
			_ = resp.Flush()
			resp.WriteString("body")
			_ = resp.Flush()
			resp.AddTrailer("X-Sum", "1")
			return 200
		case "/hints":
			var hints conn.Header
			hints.Set("Link", "</a>")
			_ = resp.Inform(103, &hints)
			resp.Header().Set("X-Last", "1")
			return 204
		case "/untyped":
			resp.SetBody([]byte("<html>"))
			return 200
		case "/two":
			resp.Header().Add("Set-Cookie", "a=1")
			resp.Header().Add("Set-Cookie", "b=2")
			resp.Header().Set("Connection", "close")
			return 302
		case "/unread":
			return 403
		case "/large":
			resp.SetBody(bytes.Repeat([]byte("0123456789abcdef"), 1<<16))
			return 200
		case "/panic":
			panic("on purpose")
		case "/cut":
			resp.WriteString(strings.Repeat("x", 100_000))
			_ = resp.Flush()
			panic(http.ErrAbortHandler)
		case "/abort":
			panic(http.ErrAbortHandler)
		}
		return 404
	})
	requests := []string{
		"GET /facts?a=b%20c&d HTTP/1.1\r\nHost: a\r\nX-Two: 1\r\nx-two: 2",
		"HEAD /facts HTTP/1.1\r\nHost: a",
		"GET /facts HTTP/1.0",
		"GET /facts HTTP/1.0\r\nConnection: keep-alive",
		"GET /a%2Fb/../../facts HTTP/1.1\r\nHost: a",
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 0",
		"POST /echo HTTP/1.0\r\nContent-Length: 5\r\n\r\nhello",
		"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nTrailer: X-T\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"5\r\nhello\r\n0\r\nX-T: u\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n" +
			"5\r\nhello\r\n0\r\nX-T: u\r\n\r\n",
		"POST /echo HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\nhello",
		"POST /unread HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"GET /trailer HTTP/1.1\r\nHost: a",
		"GET /trailer HTTP/1.0",
		"GET /hints HTTP/1.1\r\nHost: a",
		"GET /untyped HTTP/1.1\r\nHost: a",
		"GET /two HTTP/1.1\r\nHost: a",
		"GET /large HTTP/1.1\r\nHost: a",
		"HEAD /large HTTP/1.1\r\nHost: a",
		"GET /none HTTP/1.1\r\nHost: a",
		"GET /panic HTTP/1.1\r\nHost: a",
		"GET /cut HTTP/1.1\r\nHost: a",
		"GET /abort HTTP/1.1\r\nHost: a",
	}
	own := start(t, direct, conn.Config{Handler: h})
	own.Panics.Expect()
	std := underHTTP(t, conn.ToHTTP(h))
	for _, raw := range requests {
		if !strings.Contains(raw, "\r\n\r\n") {
			raw += "\r\n\r\n"
		}
		method, _, _ := strings.Cut(raw, " ")
		want, got := facts(t, own.Dial(), method, raw), facts(t, dialHTTP(t, std), method, raw)
		if got != want {
			t.Errorf("%q:\n%s\nbehind a Server:\n%s", raw, got, want)
		}
	}
}

// facts sends a request, and describes all of its answers.
func facts(t *testing.T, c *client, method, raw string) string {
	t.Helper()
	send(t, c, raw)
	var all strings.Builder
	for {
		resp, err := http.ReadResponse(c.R, &http.Request{Method: method})
		if err != nil {
			fmt.Fprintf(&all, "cut: %t", errors.Is(err, io.ErrUnexpectedEOF))
			return all.String()
		}
		body, err := io.ReadAll(resp.Body)
		resp.Header.Del("Date")
		text := string(body)
		if len(text) > 1000 {
			text = fmt.Sprint(len(text), " bytes")
		}
		if resp.StatusCode == 100 { // depends on what of the body has come already
			continue
		}
		resp.Header.Del("Connection") // net/http says more to a client of HTTP/1.0
		fmt.Fprintf(&all, "%s close=%t length=%d %v\n%s %v %v\n", resp.Status, resp.Close,
			resp.ContentLength, resp.Header, text, err, resp.Trailer)
		if resp.StatusCode >= 200 {
			return all.String()
		}
	}
}

// TestToHTTPRequest: what net/http and handlers around know of a client is what the handler gets.
func TestToHTTPRequest(t *testing.T) {
	type key struct{}
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		ctx := req.Context()
		local, _ := ctx.Value(http.LocalAddrContextKey).(net.Addr)
		if local == nil || local.String() != req.LocalAddr().String() {
			t.Errorf("local address %v, %v", local, req.LocalAddr())
		}
		if s, _ := ctx.Value(http.ServerContextKey).(*http.Server); s == nil || s.Addr != "marked" {
			t.Errorf("server %v", s)
		}
		fmt.Fprint(resp, ctx.Value(key{}), " ", req.Path(), " ", req.RemoteAddr(), " ",
			req.PeerAddr(), " ", req.TLS().ServerName, " ", req.Secure(), " ", req.Proto())
		return 200
	}))
	s := httptest.NewUnstartedServer(http.StripPrefix("/under", http.HandlerFunc(
		func(w http.ResponseWriter, r *http.Request) {
			r = r.WithContext(context.WithValue(r.Context(), key{}, "value"))
			if addr := r.Header.Get("X-Real-Ip"); addr != "" {
				r.RemoteAddr = addr
			}
			h.ServeHTTP(w, r)
		})))
	s.Config.Addr = "marked"
	s.EnableHTTP2 = true
	s.StartTLS()
	defer s.Close()
	for _, protocol := range []string{"http/1.1", "h2"} {
		tr := s.Client().Transport.(*http.Transport).Clone()
		tr.TLSClientConfig.ServerName = "example.com"
		tr.ForceAttemptHTTP2 = protocol == "h2"
		if protocol != "h2" {
			tr.TLSNextProto = map[string]func(string, *tls.Conn) http.RoundTripper{}
			tr.TLSClientConfig.NextProtos = nil
		}
		defer tr.CloseIdleConnections()
		req := must.Get(http.NewRequest("POST", s.URL+"/under/path", strings.NewReader("body")))(t)
		req.Header.Set("X-Real-Ip", "192.0.2.1")
		resp := must.Get((&http.Client{Transport: tr}).Do(req))(t)
		want := "value /path 192.0.2.1:0 192.0.2.1:0 example.com true HTTP/1.1"
		if got := rest(t, resp.Body); got != want || (resp.ProtoMajor == 2) != (protocol == "h2") {
			t.Errorf("%s, %s: %q", protocol, resp.Proto, got)
		}
		resp.Body.Close()
	}
}

// TestToHTTPPattern: what a ServeMux has found is what the handler finds, unless a Mux of its own
// finds something else.
func TestToHTTPPattern(t *testing.T) {
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		fmt.Fprintf(resp, "%s %q %q %q", req.Pattern(), req.PathValue("id"), req.PathValue("rest"),
			req.PathValue("none"))
		return 200
	}))
	inner := handlers.NewMux()
	inner.Handle("/own/{rest}", func(req *conn.Request, resp *conn.Response) int {
		fmt.Fprintf(resp, "%s %q %q", req.Pattern(), req.PathValue("id"), req.PathValue("rest"))
		return 200
	})
	mux := http.NewServeMux()
	mux.Handle("GET /items/{id}/{rest...}", h)
	mux.Handle("/plain/{$}", h)
	mux.Handle("/own/{id}", conn.ToHTTP(inner))
	s := underHTTP(t, mux)
	for path, want := range map[string]string{
		"/items/a%2Fb/c/d": `GET /items/{id}/{rest...} "a/b" "c/d" ""`,
		"/plain/":          `/plain/{$} "" "" ""`,
		"/own/x":           `/own/{rest} "" "x"`,
	} {
		if a := dialHTTP(t, s).Do("GET", "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n"); a.Text != want {
			t.Errorf("%s: %s", path, a.Text)
		}
	}
}

// TestBridgePattern: an http.Handler behind a pattern has its values, as with a ServeMux.
func TestBridgePattern(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		mux := handlers.NewMux()
		mux.Handle("GET /items/{id}/{rest...}", mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			fmt.Fprintf(w, "%s %q %q %q", r.Pattern, r.PathValue("id"), r.PathValue("rest"),
				r.PathValue("none"))
		})))
		s := start(t, m, conn.Config{Handler: mux.Serve})
		want := `GET /items/{id}/{rest...} "a/b" "c/d" ""`
		a := s.Dial().Do("GET", "GET /items/a%2Fb/c/d HTTP/1.1\r\nHost: a\r\n\r\n")
		if a.Text != want {
			t.Errorf("%s", a.Text)
		}
	})
}

// TestToHTTPWithoutServer: a recorder of httptest works as well.
func TestToHTTPWithoutServer(t *testing.T) {
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		body, err := io.ReadAll(req.Body())
		fmt.Fprintf(resp, "%s %v %s", body, err, req.RemoteAddr())
		return 200
	}))
	for _, body := range []io.Reader{strings.NewReader("known"),
		io.MultiReader(strings.NewReader("un"), strings.NewReader("known"))} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest("POST", "/", body))
		if got := w.Body.String(); !strings.HasSuffix(got, "known <nil> 192.0.2.1:1234") {
			t.Errorf("%d %q", w.Code, got)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.URL.RawQuery = "a b\r\nInjected: 1"
	w := httptest.NewRecorder()
	if h.ServeHTTP(w, r); w.Code != 400 {
		t.Errorf("an invalid target: %d %q", w.Code, w.Body)
	}
}
