package conn_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestToHTTPDuplex: both directions go on at once.
func TestToHTTPDuplex(t *testing.T) {
	s := underHTTP(t, conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		_ = resp.Flush()
		var p [100]byte
		for {
			n, err := req.Body().Read(p[:])
			if _, err := resp.Write(p[:n]); err != nil {
				t.Error(err)
			}
			if resp.Flush() != nil || err != nil {
				return 200
			}
		}
	})))
	c := dialHTTP(t, s)
	send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")
	resp := must.Get(http.ReadResponse(c.R, nil))(t)
	for range 10 {
		send(t, c, "5\r\nhello\r\n")
		var p [5]byte
		if _, err := io.ReadFull(resp.Body, p[:]); err != nil || string(p[:]) != "hello" {
			t.Fatalf("%q, %v", p, err)
		}
	}
	send(t, c, "0\r\n\r\n")
	if got := rest(t, resp.Body); got != "" {
		t.Errorf("%q", got)
	}
	if a := c.Do("POST", "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nok"); a.Text != "ok" {
		t.Errorf("the next request: %q", a.Text)
	}
}

// TestToHTTPLeaves: the handler learns that its client has left.
func TestToHTTPLeaves(t *testing.T) {
	waits, ended := make(chan struct{}, 1), make(chan error, 1)
	s := underHTTP(t, conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/stream" {
			_ = resp.Flush()
		}
		waits <- struct{}{}
		ctx := req.Context()
		err := req.Sleep(time.Hour)
		if !errors.Is(context.Cause(ctx), loop.ErrClientGone) {
			t.Errorf("context: %v", context.Cause(ctx))
		}
		ended <- err
		return 200
	})))
	for _, raw := range []string{get, "GET /stream HTTP/1.1\r\nHost: a\r\n\r\n",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhel"} {
		c := dialHTTP(t, s)
		send(t, c, raw)
		<-waits
		c.Close()
		select {
		case err := <-ended:
			if !errors.Is(err, loop.ErrClientGone) {
				t.Errorf("%q: %v", raw, err)
			}
		case <-time.After(wait.Patience):
			t.Fatalf("%q: the handler still waits", raw)
		}
	}
}

// TestToHTTPSlow: a client that reads slowly gets all of an answer, and others are served
// meanwhile.
func TestToHTTPSlow(t *testing.T) {
	data := chacha(4 << 20)
	s := underHTTP(t, conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/" {
			return 204
		}
		if req.Path() == "/stream" {
			for p := data; len(p) > 0; p = p[1<<16:] {
				if _, err := resp.Write(p[:1<<16]); err != nil {
					t.Error(err)
				}
			}
			return 200
		}
		resp.SetBody(data)
		return 200
	})))
	for _, path := range []string{"/whole", "/stream"} {
		c := dialHTTP(t, s)
		must.Do(t, c.Conn.(*net.TCPConn).SetReadBuffer(64<<10))
		send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\n\r\n")
		resp := must.Get(http.ReadResponse(bufio.NewReaderSize(c.R, 16), nil))(t)
		var got bytes.Buffer
		for range 5 {
			must.Get(io.CopyN(&got, resp.Body, 10_000))(t)
			if a := dialHTTP(t, s).Do("GET", get); a.StatusCode != 204 {
				t.Errorf("beside it: %s", a.Status)
			}
		}
		if _, err := got.ReadFrom(resp.Body); err != nil || !bytes.Equal(got.Bytes(), data) {
			t.Errorf("%s: %d bytes, %v", path, got.Len(), err)
		}
	}
}

// TestToHTTPUnread: a body that the handler does not read, or that is too large, does not take the
// answer away, and what is left of it is never a request.
func TestToHTTPUnread(t *testing.T) {
	var evil atomic.Int32
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		switch req.Path() {
		case "/evil":
			evil.Add(1)
		case "/chunks":
			_ = resp.Flush()
		case "/read":
			_, err := io.Copy(io.Discard, req.Body())
			return resp.Error(400, err)
		}
		return 403
	}))
	s := underHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/read" {
			r.Body = http.MaxBytesReader(w, r.Body, 10)
		}
		h.ServeHTTP(w, r)
	}))
	const second = "GET /evil HTTP/1.1\r\nHost: a\r\n\r\n"
	for _, path := range []string{"/", "/chunks", "/read"} {
		for _, framing := range []string{"Content-Length: 1000", "Transfer-Encoding: chunked"} {
			c := dialHTTP(t, s)
			send(t, c, "POST "+path+" HTTP/1.1\r\nHost: a\r\n"+framing+"\r\n\r\n")
			if path == "/read" {
				send(t, c, "14\r\n"+strings.Repeat("x", 20)+"\r\n")
			}
			resp, err := http.ReadResponse(c.R, nil)
			if err != nil || resp.StatusCode < 400 && path != "/chunks" {
				t.Errorf("%s %s: %v, %v", path, framing, resp, err)
			}
			_, _ = io.WriteString(c, second+second)
			c.Conn.(*net.TCPConn).CloseWrite()
			_, _ = io.Copy(io.Discard, c.R)
		}
	}
	// One that writes all before it reads gets its answer, too.
	c := dialHTTP(t, s)
	send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 3000000\r\n\r\n")
	_, _ = c.Write(make([]byte, 3_000_000))
	if a := c.Answer("POST"); a.StatusCode != 403 {
		t.Errorf("%s", a.Status)
	}
	// Nothing is asked of a client that waits for that.
	c = dialHTTP(t, s)
	send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 3000000\r\n\r\n")
	if a := c.Answer("POST"); a.StatusCode != 403 {
		t.Errorf("with Expect: %s", a.Status)
	}
	if evil.Load() != 0 {
		t.Error("a body became a request")
	}
}

// TestToHTTPUpgrade: after 101 bytes go to and fro, until one side ends, over TLS as well.
func TestToHTTPUpgrade(t *testing.T) {
	ended := make(chan error, 1)
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		c, r, err := resp.Hijack()
		if err != nil {
			t.Error(err)
			return 500
		}
		_, err = io.WriteString(c, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n"+
			"Upgrade: echo\r\n\r\nfirst;")
		if err == nil {
			_, err = io.Copy(c, r)
		}
		if req.Path() == "/farewell" && err == nil {
			_, err = io.WriteString(c, "bye")
		}
		ended <- err
		return 0
	}))
	around := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Around", "1")
		h.ServeHTTP(w, r)
	})
	plainly, secure := underHTTP(t, around), httptest.NewTLSServer(around)
	defer secure.Close()
	for _, s := range []*httptest.Server{plainly, secure} {
		for _, path := range []string{"/", "/farewell"} {
			c := dialHTTP(t, s)
			if s == secure {
				c = server.NewClient(t, tls.Client(c.Conn, &tls.Config{InsecureSkipVerify: true}))
			}
			send(t, c, "GET "+path+" HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\n"+
				"Upgrade: echo\r\n\r\nearly;")
			resp := must.Get(http.ReadResponse(c.R, nil))(t)
			if resp.StatusCode != 101 || resp.Header.Get("Upgrade") != "echo" ||
				resp.Header.Get("X-Around") != "1" {
				t.Errorf("%v", resp)
			}
			large := strings.Repeat("0123456789", 100_000)
			go io.WriteString(c, large)
			want := "first;early;" + large
			got := make([]byte, len(want))
			if _, err := io.ReadFull(c.R, got); err != nil || string(got) != want {
				t.Errorf("%q, %v", clip(string(got)), err)
			}
			if path == "/" {
				c.Close()
			} else {
				if err := c.Conn.(interface{ CloseWrite() error }).CloseWrite(); err != nil {
					t.Error(err)
				}
				if got := rest(t, c.R); got != "bye" {
					t.Errorf("at the end: %q", got)
				}
			}
			select {
			case err := <-ended:
				if err != nil && path == "/farewell" {
					t.Error(err)
				}
			case <-time.After(wait.Patience):
				t.Fatal("the handler still waits")
			}
		}
	}
	w := httptest.NewRecorder() // no connection that can be taken over
	h.ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
	if <-ended; w.Code != 501 {
		t.Errorf("without Hijack: %d", w.Code)
	}
}

// TestToHTTPBlocked: a client that has left while neither side read does not keep ServeHTTP.
func TestToHTTPBlocked(t *testing.T) {
	waits, returned := make(chan struct{}, 1), make(chan struct{}, 1)
	h := conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		req.KeepWaiting(true)
		waits <- struct{}{}
		_, _ = resp.Write(make([]byte, 32<<20)) // nothing of the body is read
		return 200
	}))
	s := underHTTP(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		defer func() { returned <- struct{}{} }()
		h.ServeHTTP(w, r)
	}))
	c := dialHTTP(t, s)
	send(t, c, "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 30000000\r\n\r\n")
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		_, _ = c.Write(make([]byte, 30_000_000))
	}()
	<-waits
	c.Reset()
	<-sent
	select {
	case <-returned:
	case <-time.After(wait.Patience):
		t.Error("ServeHTTP has not returned")
	}
}
