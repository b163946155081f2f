package conn_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// witness is a handler that notes what it sees.
type witness func(w http.ResponseWriter, r *http.Request, note func(args ...any))

// observation is a handler, the request that it gets, and what the client does then.
type observation struct {
	raw    string
	h      witness
	client func(t *testing.T, c *client) // nil: it reads all answers to the end
	blocks bool                          // not on a loop
	closes bool                          // whether the connection goes on differs, with good reason
}

// kind says what an error is to a handler that asks.
func kind(err error) string {
	switch {
	case err == nil:
		return "nil"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "deadline"
	}
	for name, is := range map[string]error{
		"EOF": io.EOF, "unexpected EOF": io.ErrUnexpectedEOF, "hijacked": http.ErrHijacked,
		"content length": http.ErrContentLength, "no body": http.ErrBodyNotAllowed,
		"read after close": http.ErrBodyReadAfterClose, "not supported": errors.ErrUnsupported,
		"canceled": context.Canceled,
	} {
		if errors.Is(err, is) {
			return name
		}
	}
	if e := (*http.MaxBytesError)(nil); errors.As(err, &e) {
		return "max bytes"
	}
	return "error"
}

const (
	chunkedPost = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
)

// leaves is a client that goes when the handler has begun to answer.
func leaves(t *testing.T, c *client) {
	if _, err := http.ReadResponse(c.R, nil); err != nil {
		t.Error(err)
	}
	c.Close()
}

// halfCloses is a client that sends no more.
func halfCloses(t *testing.T, c *client) {
	if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
		t.Error(err)
	}
}

// observations are what net/http gives to handlers, beside what the tables tellingRequests and
// respond have. A panic is not among them: net/http cuts the connection, and a Server answers with
// 500.
var observations = map[string]observation{
	"interfaces": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		_, flusher := w.(http.Flusher)
		_, flushError := w.(interface{ FlushError() error })
		_, hijacker := w.(http.Hijacker)
		_, pusher := w.(http.Pusher)
		//lint:ignore SA1019 that it is there is what is tested
		_, notifier := w.(http.CloseNotifier)
		_, readerFrom := w.(io.ReaderFrom)
		_, stringWriter := w.(io.StringWriter)
		note(flusher, flushError, hijacker, pusher, notifier, readerFrom, stringWriter)
	}},
	"controller": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		c := http.NewResponseController(w)
		soon := time.Now().Add(time.Hour)
		note(kind(c.SetReadDeadline(soon)), kind(c.SetWriteDeadline(soon)),
			kind(c.EnableFullDuplex()), kind(c.Flush()))
		note(kind(c.SetReadDeadline(time.Time{})), kind(c.SetWriteDeadline(time.Time{})))
		io.WriteString(w, "x")
	}},
	"context": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		ctx := r.Context()
		s, isServer := ctx.Value(http.ServerContextKey).(*http.Server)
		local, isAddr := ctx.Value(http.LocalAddrContextKey).(net.Addr)
		note(isServer, s != nil, isAddr)
		if isAddr {
			host, port, err := net.SplitHostPort(local.String())
			note(local.Network(), host, port != "", err)
			_, isTCP := local.(*net.TCPAddr)
			note(isTCP)
		}
		_, limited := ctx.Deadline()
		note(limited, ctx.Err(), ctx.Value("other"))
		host, port, err := net.SplitHostPort(r.RemoteAddr)
		note(host, port != "", err, r.TLS != nil, r.GetBody == nil, r.Response == nil, r.Pattern,
			r.PathValue("x"), r.MultipartForm == nil, r.Form == nil)
	}},
	"after the end": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		ended := context.AfterFunc(r.Context(), func() {})
		note(ended != nil)
		w.WriteHeader(204)
		_, err := io.WriteString(w, "x")
		note(kind(err))
		n, err := w.Write(nil)
		note(n, kind(err))
	}},
	"head": {raw: "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n", h: func(w http.ResponseWriter, r *http.Request,
		note func(...any)) {
		n, err := io.WriteString(w, "hello")
		note(n, kind(err))
	}},
	"body": {raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			n, err := r.Body.Read(nil)
			note(n, kind(err))
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err))
			n, err = r.Body.Read(make([]byte, 1))
			note(n, kind(err), r.Body.Close(), r.Body.Close())
			_, err = r.Body.Read(make([]byte, 1))
			note(kind(err))
		}},
	"short body": {closes: true, // net/http says that it goes on; there is nothing to come
		raw:    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
		client: halfCloses, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err))
		}},
	"short chunk": {raw: chunkedPost + "5\r\nhel", client: halfCloses,
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err))
		}},
	"no last chunk": {raw: chunkedPost + "5\r\nhello\r\n", client: halfCloses,
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err))
		}},
	"bad chunk": {raw: chunkedPost + "5\r\nhello\r\nx\r\n",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			p, err := io.ReadAll(r.Body)
			note(string(p), err != nil && err != io.EOF)
		}},
	"trailer": {raw: "POST / HTTP/1.1\r\nHost: a\r\nTrailer: X-Sum\r\n" +
		"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX-Sum: 1\r\nX-Other: 2\r\n\r\n",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			note(r.Trailer, r.Header)
			_, err := io.Copy(io.Discard, r.Body)
			note(r.Trailer, kind(err))
		}},
	"max bytes": {closes: true, // only net/http's own ResponseWriter is told; what is unread decides
		raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 20\r\n\r\n01234567890123456789",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			r.Body = http.MaxBytesReader(w, r.Body, 10)
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err))
			http.Error(w, "too much", 413)
		}},
	"expect": {raw: "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
		client: func(t *testing.T, c *client) {
			if resp, err := http.ReadResponse(c.R, nil); err != nil || resp.StatusCode != 100 {
				t.Errorf("%v, %v", resp, err)
			}
			send(t, c, "hello")
		},
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err), r.Header["Expect"])
		}},
	"expect and refuse": {
		raw: "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			http.Error(w, "no", 403)
		}},
	"read deadline": {raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			var p3 [3]byte
			_, err := io.ReadFull(r.Body, p3[:])
			note(string(p3[:]), kind(err))
			err = http.NewResponseController(w).SetReadDeadline(time.Now().Add(20 * time.Millisecond))
			note(kind(err))
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err))
			var timeout net.Error
			note(errors.As(err, &timeout) && timeout.Timeout())
			w.Header().Set("Connection", "close")
		}},
	"hijack": {raw: get, client: func(t *testing.T, c *client) {
		send(t, c, "ping")
		halfCloses(t, c)
	}, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		c, rw, err := http.NewResponseController(w).Hijack()
		note(kind(err))
		defer c.Close()
		n, err := io.WriteString(w, "x")
		note(n, kind(err))
		_, _, err = w.(http.Hijacker).Hijack()
		note(kind(err))
		w.WriteHeader(500)
		var p [4]byte
		_, err = io.ReadFull(rw, p[:])
		note(string(p[:]), kind(err))
		_, err = rw.Read(p[:])
		note(kind(err))
		note(c.LocalAddr().Network(), c.RemoteAddr().String() == r.RemoteAddr)
		_, err = rw.WriteString("HTTP/1.1 299 Own\r\nContent-Length: 0\r\n\r\n")
		note(kind(err), kind(rw.Flush()), kind(c.SetDeadline(time.Now().Add(time.Hour))))
	}},
	"hijack after a flush": {raw: get, h: func(w http.ResponseWriter, r *http.Request,
		note func(...any)) {
		w.Header().Set("Content-Length", "5")
		io.WriteString(w, "12")
		w.(http.Flusher).Flush()
		c, _, err := w.(http.Hijacker).Hijack()
		note(kind(err))
		if err == nil {
			io.WriteString(c, "345")
			c.Close()
		}
	}},
	"hijack with a body": {raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			p, err := io.ReadAll(r.Body)
			note(string(p), kind(err))
			c, _, err := w.(http.Hijacker).Hijack()
			note(kind(err))
			if err == nil {
				io.WriteString(c, "HTTP/1.1 204 No Content\r\n\r\n")
				c.Close()
			}
		}},
	"abort": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		io.WriteString(w, "never")
		panic(http.ErrAbortHandler)
	}},
	"abort behind a flush": {raw: get, h: func(w http.ResponseWriter, r *http.Request,
		note func(...any)) {
		io.WriteString(w, "some")
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}},
	"bad status": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		defer func() { note(recover() != nil) }()
		w.WriteHeader(99)
	}},
	"interim": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		w.Header().Set("Link", "</a>")
		w.WriteHeader(103)
		w.Header().Del("Link")
		w.Header().Set("X-Final", "1")
		w.WriteHeader(102)
		w.WriteHeader(201)
		w.WriteHeader(103)
	}},
	"trailers": {raw: get, h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
		w.Header().Set("Trailer", "X-A, Content-Length, X-B")
		io.WriteString(w, "x")
		w.(http.Flusher).Flush()
		w.Header().Set("X-A", "1")
		w.Header().Set("X-C", "3")
		w.Header().Set(http.TrailerPrefix+"X-D", "4")
	}},
	"the client leaves": {raw: get, client: leaves, blocks: true,
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			//lint:ignore SA1019 that it works is what is tested
			gone := w.(http.CloseNotifier).CloseNotify()
			w.(http.Flusher).Flush()
			<-r.Context().Done()
			note(r.Context().Err(), <-gone)
		}},
	"the client leaves a body": {raw: "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel",
		client: func(t *testing.T, c *client) { c.Close() },
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			p, err := io.ReadAll(r.Body)
			note(string(p), err != nil)
		}},
	"values": {raw: "GET /?a=1&b=2&b=3 HTTP/1.1\r\nHost: a:81\r\nCookie: c=d; e=f\r\n" +
		"Authorization: Basic dTpw\r\nReferer: r\r\nUser-Agent: u\r\n\r\n",
		h: func(w http.ResponseWriter, r *http.Request, note func(...any)) {
			user, password, ok := r.BasicAuth()
			note(user, password, ok, r.Cookies(), r.FormValue("b"), r.Form, r.UserAgent(), r.Referer(),
				r.Host, r.URL.Host, r.Proto)
			http.SetCookie(w, &http.Cookie{Name: "g", Value: "h", HttpOnly: true})
		}},
}

// observe runs an observation at addr, and returns what the handler has noted, and what the client
// has got.
func observe(t *testing.T, c *client, o observation, notes <-chan []string) (noted, got string) {
	t.Helper()
	send(t, c, o.raw)
	if o.client != nil {
		o.client(t, c)
	}
	method, _, _ := strings.Cut(o.raw, " ")
	var all strings.Builder
	for {
		resp, err := http.ReadResponse(c.R, &http.Request{Method: method})
		if err != nil {
			break
		}
		body, err := io.ReadAll(resp.Body)
		for _, name := range []string{"Date", "Content-Length", "Connection"} {
			resp.Header.Del(name) // as in sameAsReference
		}
		fmt.Fprintf(&all, "%d %q %q %v %v close=%t\n", resp.StatusCode, resp.Header, body, kind(err),
			resp.Trailer, resp.Close && !o.closes)
		if resp.StatusCode >= 200 {
			break
		}
	}
	c.Close() // a handler may wait for that
	select {
	case seen := <-notes:
		return strings.Join(seen, "\n"), all.String()
	case <-time.After(wait.Patience):
		t.Error("the handler has not returned")
		return "", all.String()
	}
}

// TestBridgeEverything: in every observation handler and client see what they see with net/http.
func TestBridgeEverything(t *testing.T) {
	witnessed := func(o observation) (http.Handler, <-chan []string) {
		notes := make(chan []string, 1)
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			var seen []string
			defer func() { notes <- seen }()
			o.h(w, r, func(args ...any) { seen = append(seen, fmt.Sprint(args...)) })
		}), notes
	}
	type outcome struct{ noted, got string }
	want := make(map[string]outcome)
	names := slices.Sorted(maps.Keys(observations))
	for _, name := range names {
		h, notes := witnessed(observations[name])
		c := must.Get(net.Dial("tcp", reference(t, h)))(t)
		noted, got := observe(t, server.NewClient(t, c), observations[name], notes)
		want[name] = outcome{noted, got}
	}
	for way, mount := range map[string]mount{
		"off the loop": conn.HTTP, "on the loop": conn.HTTPOnLoop,
	} {
		for _, name := range names {
			o := observations[name]
			if o.blocks && way == "on the loop" {
				continue
			}
			h, notes := witnessed(o)
			s := start(t, direct, conn.Config{Handler: mount(h)})
			noted, got := observe(t, s.Dial(), o, notes)
			if noted != want[name].noted {
				t.Errorf("%s, %s: the handler sees\n%s\nwith net/http\n%s", name, way, noted,
					want[name].noted)
			}
			if got != want[name].got {
				t.Errorf("%s, %s: the client sees\n%s\nwith net/http\n%s", name, way, got,
					want[name].got)
			}
		}
	}
}
