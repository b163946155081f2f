package conn_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// tell writes everything that a handler can see of a request.
func tell(w http.ResponseWriter, r *http.Request) {
	fmt.Fprintf(w, "%s %q %s %d.%d %q close %v\n", r.Method, r.RequestURI, r.Proto, r.ProtoMajor,
		r.ProtoMinor, r.Host, r.Close)
	fmt.Fprintf(w, "URL %#v\n", *r.URL)
	fmt.Fprintf(w, "length %d %q no body %v\n", r.ContentLength, r.TransferEncoding,
		r.Body == http.NoBody)
	fmt.Fprintf(w, "header %q\ntrailer %q\n", r.Header, r.Trailer)
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	fmt.Fprintln(w, "from", host, err, "pattern", r.Pattern)
	if r.URL.Query().Has("form") {
		err := r.ParseMultipartForm(1 << 20)
		fmt.Fprintln(w, "form", r.Form, r.PostForm, err)
	}
	body, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "body %q %v\ntrailer %q\n", body, err, r.Trailer)
	_, err = r.Body.Read(make([]byte, 1))
	fmt.Fprintln(w, "again", err)
	r.Body.Close()
	_, err = r.Body.Read(make([]byte, 1))
	fmt.Fprintln(w, "closed", err)
}

var tellingRequests = []string{
	"GET / HTTP/1.1\r\nHost: a.example:80\r\n\r\n",
	"GET /a%2Fb/c%20d/../%7Ee?x=1&x=%zz;+y HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET //a//b/? HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://other.example:8080/p?q HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET http://other.example HTTP/1.1\r\nHost: a\r\n\r\n",
	"GET / HTTP/1.0\r\n\r\n",
	"GET / HTTP/1.0\r\nHost: a\r\nConnection: keep-alive\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nConnection: x, close\r\n\r\n",
	"GET / HTTP/1.1\r\nhost: a\r\nx-lower: 1\r\nX-Lower: 2\r\nX-LOWER:\r\ncookie: a=b\r\nCookie: " +
		"c=d\r\nPragma: no-cache\r\n\r\n",
	"GET / HTTP/1.1\r\nHost: a\r\nPragma: no-cache\r\nCache-Control: x\r\nTrailer: A\r\n\r\n",
	"POST /?a=1&form HTTP/1.1\r\nHost: a\r\nContent-Type: " +
		"application/x-www-form-urlencoded\r\nContent-Length: 7\r\n\r\na=2&b=3",
	"POST /?form HTTP/1.1\r\nHost: a\r\nContent-Type: multipart/form-data; " +
		"boundary=x\r\nContent-Length: 61\r\n\r\n--x\r\nContent-Disposition: form-data; " +
		"name=\"f\"\r\n\r\nvalue\r\n--x--",
	"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: Chunked\r\nTrailer: x-sum, " +
		"y\r\n\r\n3\r\nabc\r\n0\r\nX-sum: 1\r\nX-Sum: 2\r\nZ: 3\r\n\r\n",
	"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: x-sum\r\n\r\n0\r\n\r\n",
}

// TestBridgeRequest: a handler sees of a request what it would see under net/http.
func TestBridgeRequest(t *testing.T) {
	want := make([]answer, len(tellingRequests))
	addr := reference(t, http.HandlerFunc(tell))
	for i, raw := range tellingRequests {
		c := must.Get(net.Dial("tcp", addr))(t)
		want[i] = ask(t, c, "GET", raw)
	}
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(tell))})
		for i, raw := range tellingRequests {
			a := want[i]
			a.Response = &http.Response{Status: a.Status, Header: a.Header.Clone(),
				Trailer: a.Trailer, Close: a.Close}
			sameAsReference(t, raw, ask(t, s.Dial(), "GET", raw), a)
		}
	}, http1...)
}

// TestBridgeRequestConnection: what a request tells of its connection.
func TestBridgeRequestConnection(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.HandlerFunc(func(w http.ResponseWriter,
			r *http.Request) {
			fmt.Fprintln(w, r.RemoteAddr, r.Context().Value(http.LocalAddrContextKey),
				r.TLS != nil && r.TLS.HandshakeComplete)
		}))})
		c := s.Dial()
		want := fmt.Sprintln(c.LocalAddr(), s.Addr, m.TLS)
		if a := c.Do("GET", get); a.Text != want {
			t.Errorf("%q, not %q", a.Text, want)
		}
	})
}

// TestBridgeBadTarget: what net/http cannot parse it does not get.
func TestBridgeBadTarget(t *testing.T) {
	bothWays(t, func(t *testing.T, m mode, mount mount) {
		s := start(t, m, conn.Config{Handler: mount(http.NotFoundHandler())})
		got := s.Exchange("GET http://a:b:c/ HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
		if a := parse(t, got, "GET")[0]; a.StatusCode != 400 {
			t.Error(a.Status)
		}
	})
}

// TestBridgeUnixSocket: a client without an address has the name that net/http gives it.
func TestBridgeUnixSocket(t *testing.T) {
	for _, mount := range []mount{conn.HTTP, conn.HTTPOnLoop} {
		h := mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			fmt.Fprint(w, r.RemoteAddr, " ",
				r.Context().Value(http.LocalAddrContextKey).(net.Addr).Network())
		}))
		s := start(t, modes.OverUNIX, conn.Config{Handler: h})
		if a := ask(t, s.Dial(), "GET", get); a.Text != "@ unix" {
			t.Errorf("%q", a.Text)
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
