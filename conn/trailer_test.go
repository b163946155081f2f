package conn_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// TestTrailerOfOneRequest: a request without chunks does not have the trailer of one before it, on
// this connection or on another.
func TestTrailerOfOneRequest(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			req.Body().KeepTrailer()
			if _, err := io.Copy(io.Discard, req.Body()); err != nil {
				t.Error(err)
			}
			req.Body().Trailer(func(name, value string) { fmt.Fprint(resp, name, "=", value) })
			return 200
		}})
		c := s.Dial()
		a := c.Do("POST", "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"+
			"1\r\nx\r\n0\r\nX-T: u\r\n\r\n")
		if !strings.EqualFold(a.Text, "X-T=u") {
			t.Errorf("%q", a.Text)
		}
		for _, raw := range []string{get,
			"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n\r\nx"} {
			if a := c.Do("GET", raw); a.Text != "" {
				t.Errorf("%q has %q", raw, a.Text)
			}
			if a := s.Dial().Do("GET", raw); a.Text != "" {
				t.Errorf("%q on another connection has %q", raw, a.Text)
			}
		}
	})
}

// TestTrailerNames: a field that is needed before the body is in no trailer, whether a client or a
// handler sends it, natively or by the bridges.
func TestTrailerNames(t *testing.T) {
	t.Parallel()
	bad := []string{"authorization", "Cache-Control", "Connection", "Content-Encoding",
		"content-length", "Content-Range", "CONTENT-TYPE", "Cookie", "Expect", "Host", "If-Match",
		"if-none-match", "Keep-Alive", "Max-Forwards", "Pragma", "Proxy-Authenticate",
		"Proxy-Authorization", "Proxy-Connection", "Range", "Set-Cookie", "TE", "Trailer",
		"Transfer-Encoding", "WWW-Authenticate"}
	names := append([]string{"X-First", "ETag", "If"}, bad...)
	// With these in the field Trailer, the client of net/http refuses the answer.
	announced := strings.Join(slices.DeleteFunc(slices.Clone(names), func(name string) bool {
		return slices.Contains([]string{"content-length", "Trailer", "Transfer-Encoding"}, name)
	}), ",")
	echoed := func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Trailer", announced)
		_, _ = fmt.Fprint(w, len(r.Trailer))
		w.(http.Flusher).Flush()
		for _, name := range names {
			w.Header().Set(name, "v")
			w.Header().Set(http.TrailerPrefix+name, "v")
		}
	}
	ways := map[string]conn.Handler{
		"/native": func(req *conn.Request, w *conn.Response) int {
			req.Body().KeepTrailer()
			_, _ = io.Copy(io.Discard, req.Body())
			n := 0
			req.Body().Trailer(func(string, string) { n++ })
			fmt.Fprint(w, n)
			_ = w.Flush()
			for _, name := range names {
				w.AddTrailer(name, "v")
			}
			return 200
		},
		"/http":   conn.HTTP(http.HandlerFunc(echoed)),
		"/onloop": conn.HTTPOnLoop(http.HandlerFunc(echoed)),
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: byPath(ways)})
		for path := range ways {
			a := s.Dial().Do("POST", "POST "+path+" HTTP/1.1\r\nHost: a\r\n"+
				"Transfer-Encoding: chunked\r\n\r\n1\r\nx\r\n0\r\n"+
				strings.Join(names, ": v\r\n")+": v\r\n\r\n")
			if a.Text != "3" {
				t.Errorf("%s: %s fields of the request's trailer", path, a.Text)
			}
			for _, name := range names {
				got := a.Trailer.Values(name)
				if want := !slices.Contains(bad, name); len(got) > 0 != want {
					t.Errorf("%s: the answer's trailer has %s: %q", path, name, got)
				}
			}
		}
	}, plain, direct)
}

// TestIdentity: a handler that sets Transfer-Encoding to identity gets a body that the end of the
// connection ends, unless it has said the length. So it is with net/http.
func TestIdentity(t *testing.T) {
	t.Parallel()
	answer := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Transfer-Encoding", "identity")
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "4")
		case "/none":
			w.WriteHeader(204)
			return
		}
		_, _ = io.WriteString(w, "some")
		if r.URL.Path == "/flushed" {
			w.(http.Flusher).Flush()
		}
	}
	native := func(req *conn.Request, w *conn.Response) int {
		w.Header().Set("Transfer-Encoding", "identity")
		switch req.Path() {
		case "/length":
			w.Header().Set("Content-Length", "4")
		case "/none":
			return 204
		}
		w.WriteString("some")
		if req.Path() == "/flushed" {
			_ = w.Flush()
		}
		return 200
	}
	check := func(t *testing.T, c *client, path string) {
		t.Helper()
		send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := must.Get(http.ReadResponse(c.R, nil))(t)
		b, err := io.ReadAll(resp.Body)
		ends := path == "/whole" || path == "/flushed"
		if err != nil || resp.Close != ends || len(resp.TransferEncoding) > 0 ||
			ends && resp.ContentLength != -1 || (string(b) == "some") != (path != "/none") {
			t.Errorf("%s: %v %v, %q, %v", path, resp.Status, resp.Header, b, err)
		}
		if ends {
			c.Ends()
		}
		c.Close()
	}
	paths := []string{"/whole", "/flushed", "/length", "/none"}
	std := httptest.NewServer(http.HandlerFunc(answer))
	t.Cleanup(std.Close)
	run(t, func(t *testing.T, m mode) {
		for _, h := range []conn.Handler{native, conn.HTTP(http.HandlerFunc(answer)),
			conn.HTTPOnLoop(http.HandlerFunc(answer))} {
			s := start(t, m, conn.Config{Handler: h})
			for _, path := range paths {
				check(t, s.Dial(), path)
			}
		}
		for _, path := range paths { // the reference
			c := must.Get(net.Dial("tcp", std.Listener.Addr().String()))(t)
			check(t, server.NewClient(t, c), path)
		}
	}, plain, direct)
}
