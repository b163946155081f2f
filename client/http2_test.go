package client_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// origin2 is a server of HTTP/2, with or without TLS, that counts connections.
func origin2(t *testing.T, secure bool,
	h http.HandlerFunc) (url string, accepted *atomic.Int32, c *client.Client) {
	t.Helper()
	accepted = new(atomic.Int32)
	o := httptest.NewUnstartedServer(h)
	o.Config.ConnState = func(_ net.Conn, s http.ConnState) {
		if s == http.StateNew {
			accepted.Add(1)
		}
	}
	c = &client.Client{HTTP2: true}
	if secure {
		o.EnableHTTP2 = true
		o.StartTLS()
		c.TLS = o.Client().Transport.(*http.Transport).TLSClientConfig
	} else {
		o.Config.Protocols = new(http.Protocols)
		o.Config.Protocols.SetUnencryptedHTTP2(true)
		o.Start()
	}
	t.Cleanup(o.Close)
	return o.URL, accepted, c
}

// TestHTTP2: requests with bodies of all kinds, one after the other on one connection.
func TestHTTP2(t *testing.T) {
	for _, secure := range []bool{false, true} {
		url, accepted, c := origin2(t, secure, func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			fmt.Fprint(w, r.Proto, " ", r.Method, " ", r.RequestURI, " ", r.ContentLength, " ", len(body),
				" ", err)
		})
		large := strings.Repeat("x", 3<<20)
		ls := loops.Start(t, modes.Direct, nil, nil)
		done := make(chan bool)
		ls.Go(0, func(th *loop.Thread) {
			defer close(done)
			for _, tt := range []struct {
				r    client.Request
				want string
			}{
				{client.Request{URL: "/a b?c"}, "HTTP/2.0 GET /a%20b?c 0 0 <nil>"},
				{client.Request{Method: "HEAD"}, ""},
				{client.Request{Method: "POST", URL: "/", Body: []byte(large)},
					fmt.Sprint("HTTP/2.0 POST / ", len(large), " ", len(large), " <nil>")},
				{client.Request{Method: "POST", URL: "/", From: strings.NewReader(large)},
					fmt.Sprint("HTTP/2.0 POST / -1 ", len(large), " <nil>")},
				{client.Request{Method: "PUT", URL: "/", From: strings.NewReader(large),
					Length: int64(len(large))},
					fmt.Sprint("HTTP/2.0 PUT / ", len(large), " ", len(large), " <nil>")},
				{client.Request{Method: "POST", URL: "/", From: strings.NewReader("")},
					"HTTP/2.0 POST / -1 0 <nil>"},
			} {
				r := tt.r
				r.URL = url + r.URL
				resp, err := c.Do(th, wait.Patience, &r)
				if err != nil {
					t.Error(err)
					continue
				}
				if body, err := io.ReadAll(resp.Body); err != nil || string(body) != tt.want ||
					resp.Status != 200 {
					t.Errorf("%d %q %v, want %q", resp.Status, body, err, tt.want)
				}
			}
		})
		<-done
		if n := accepted.Load(); n != 1 {
			t.Error(n, " connections")
		}
	}
}

// TestHTTP2Together: threads of a loop share a connection; one that does not read its answer, or
// closes it, holds up no other.
func TestHTTP2Together(t *testing.T) {
	const many = 40
	var there sync.WaitGroup
	there.Add(many)
	url, accepted, c := origin2(t, false, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/large" {
			for _, err := w.Write(make([]byte, 1<<16)); err == nil; _, err = w.Write(make([]byte, 1<<16)) {
			}
			return
		}
		there.Done()
		there.Wait()
		io.WriteString(w, r.URL.Path)
	})
	ls := loops.Start(t, modes.Direct, nil, nil)
	var all sync.WaitGroup
	all.Add(many + 1)
	ls.Go(0, func(th *loop.Thread) {
		defer all.Done()
		resp, err := c.Get(th, wait.Patience, url+"/large")
		if err != nil {
			t.Error(err)
			return
		}
		for i := range many {
			ls.All[0].Go(func(th *loop.Thread) {
				defer all.Done()
				path := fmt.Sprint("/", i)
				resp, err := c.Get(th, wait.Patience, url+path)
				if err != nil {
					t.Error(err)
					return
				}
				if body, err := io.ReadAll(resp.Body); string(body) != path || err != nil {
					t.Errorf("%q %v", body, err)
				}
			})
		}
		_, _ = th.AwaitAny(0)
		resp.Body.Close()
	})
	all.Wait()
	if n := accepted.Load(); n != 1 {
		t.Error(n, " connections")
	}
}

// TestHTTP2Refused: a request that the server has not acted on is sent again, once.
func TestHTTP2Refused(t *testing.T) {
	ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	var seen atomic.Int32
	var running sync.WaitGroup
	defer running.Wait()
	defer ln.Close()
	running.Go(func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			running.Go(func() {
				defer c.Close()
				_, _ = io.CopyN(io.Discard, c, int64(len(http2.Preface)))
				_, _ = c.Write(http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 0))
				var head [http2.FrameHeaderLen]byte
				for _, err := io.ReadFull(c, head[:]); err == nil; _, err = io.ReadFull(c, head[:]) {
					h := http2.ParseHeader(head[:])
					_, _ = io.CopyN(io.Discard, c, int64(h.Length))
					switch {
					case h.Type != http2.Headers:
					case seen.Add(1) == 2:
						_, _ = c.Write(append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders|http2.EndStream,
							h.Stream, 1), 0x88))
					default:
						_, _ = c.Write(http2.AppendGoAway(nil, h.Stream-1, http2.NoError, ""))
					}
				}
			})
		}
	})
	ls := loops.Start(t, modes.Direct, nil, nil)
	defer ls.Stop(0)
	c := &client.Client{HTTP2: true}
	done := make(chan bool)
	ls.Go(0, func(th *loop.Thread) {
		defer close(done)
		r := client.Request{Method: "POST", URL: "http://" + ln.Addr().String(), Body: []byte("body")}
		if resp, err := c.Do(th, wait.Patience, &r); err != nil || resp.Status != 200 {
			t.Error(resp, err)
		}
		seen.Store(10)
		if _, err := (&client.Client{HTTP2: true}).Do(th, wait.Patience, &r); !errors.Is(err,
			client.ErrCut) || seen.Load() != 12 {
			t.Error(err, seen.Load())
		}
	})
	<-done
}
