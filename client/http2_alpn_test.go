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
	"github.com/lwango/lwango/loop"
)

// TestHTTP2Either: over TLS a server that does not choose HTTP/2 is asked by HTTP/1.1, on
// connections that are kept, and by HTTP/2 once it does.
func TestHTTP2Either(t *testing.T) {
	const many = 10
	var accepted atomic.Int32
	there := make(chan bool, many)
	goOn := make(chan bool)
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if r.URL.Path == "/together" {
			there <- true
			<-goOn
		}
		fmt.Fprint(w, r.Proto, " ", len(body))
	})
	// serve starts a server, perhaps at an address that was another one's.
	serve := func(at string, http2 bool) *httptest.Server {
		o := httptest.NewUnstartedServer(h)
		if at != "" {
			ln := must.Get(net.Listen("tcp", at))(t)
			o.Listener.Close()
			o.Listener = ln
		}
		o.Config.ConnState = func(_ net.Conn, s http.ConnState) {
			if s == http.StateNew {
				accepted.Add(1)
			}
		}
		o.EnableHTTP2 = http2
		o.StartTLS()
		return o
	}
	o := serve("", false)
	c := &client.Client{HTTP2: true,
		TLS: o.Client().Transport.(*http.Transport).TLSClientConfig.Clone()}
	c.TLS.NextProtos = nil
	ls := loops.Start(t, modes.Direct, nil, nil)
	defer ls.Stop(0)
	large := strings.Repeat("x", 1<<20)
	ask := func(path, want string) {
		done := make(chan bool)
		ls.Go(0, func(th *loop.Thread) {
			defer close(done)
			r := client.Request{Method: "PUT", URL: o.URL + path, From: strings.NewReader(large)}
			resp, err := c.Do(th, wait.Patience, &r)
			if err != nil {
				t.Error(err)
				return
			}
			if body, err := io.ReadAll(resp.Body); string(body) != want || err != nil {
				t.Errorf("%q %v, want %q", body, err, want)
			}
		})
		<-done
	}
	const older = "HTTP/1.1 1048576"
	for range 3 {
		ask("/", older)
	}
	if n := accepted.Load(); n != 1 {
		t.Error(n, " connections for one request after the other")
	}
	var all sync.WaitGroup
	for range many {
		all.Go(func() { ask("/together", older) })
	}
	for range many {
		<-there
	}
	close(goOn)
	all.Wait()
	if n := accepted.Load(); n != many {
		t.Error(n, " connections for ", many, " requests at once")
	}
	at := o.Listener.Addr().String()
	o.Close()
	accepted.Store(0)
	o = serve(at, true)
	defer o.Close()
	for range 3 {
		ask("/", "HTTP/2.0 1048576")
	}
	if n := accepted.Load(); n != 1 {
		t.Error(n, " connections to the other server")
	}
}

// TestHTTP2EitherFirst: requests that come together before it is known what the server speaks.
func TestHTTP2EitherFirst(t *testing.T) {
	const many = 10
	var there sync.WaitGroup
	there.Add(many)
	o := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		there.Done()
		there.Wait() // until all are there
		io.WriteString(w, r.Proto)
	}))
	defer o.Close()
	c := &client.Client{HTTP2: true, TLS: o.Client().Transport.(*http.Transport).TLSClientConfig}
	ls := loops.Start(t, modes.Direct, nil, nil)
	defer ls.Stop(0)
	var all sync.WaitGroup
	for range many {
		all.Add(1)
		ls.Go(0, func(th *loop.Thread) {
			defer all.Done()
			resp, err := c.Get(th, wait.Patience, o.URL)
			if err != nil {
				there.Done()
				t.Error(err)
				return
			}
			if body, err := io.ReadAll(resp.Body); string(body) != "HTTP/1.1" || err != nil {
				t.Errorf("%q %v", body, err)
			}
		})
	}
	all.Wait()
}

// TestTrailer: the fields behind an answer's body, by both versions.
func TestTrailer(t *testing.T) {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		te := r.Header.Get("TE")
		switch r.URL.Path {
		case "/length":
			w.Header().Set("Content-Length", "4")
		case "/none":
		default:
			w.Header().Set("Trailer", "X-Sum, X-Two")
			defer func() {
				w.Header().Set("X-Sum", te)
				w.Header().Add("X-Two", "a")
				w.Header().Add("X-Two", "b")
			}()
		}
		io.WriteString(w, "body")
		if r.URL.Path == "/flushed" {
			w.(http.Flusher).Flush()
			io.WriteString(w, strings.Repeat("x", 100_000))
		}
	})
	for _, version2 := range []bool{false, true} {
		o := httptest.NewUnstartedServer(h)
		if version2 {
			o.Config.Protocols = new(http.Protocols)
			o.Config.Protocols.SetUnencryptedHTTP2(true)
		}
		o.Start()
		c := &client.Client{HTTP2: version2}
		ls := loops.Start(t, modes.Direct, nil, nil)
		done := make(chan bool)
		ls.Go(0, func(th *loop.Thread) {
			defer close(done)
			for path, want := range map[string]string{
				"/short": "trailers [a b]", "/flushed": "trailers [a b]", "/length": " []", "/none": " []",
			} {
				r := client.Request{URL: o.URL + path}
				r.Header.Set("TE", "trailers")
				resp, err := c.Do(th, wait.Patience, &r)
				if err != nil {
					t.Error(err)
					continue
				}
				_, err = io.Copy(io.Discard, resp.Body)
				var two []string
				for name, value := range resp.Trailer.All() {
					if strings.EqualFold(name, "X-Two") {
						two = append(two, value)
					}
				}
				if got := fmt.Sprint(resp.Trailer.Get("X-Sum"), " ", two); got != want || err != nil {
					t.Errorf("HTTP/2 %t, %s: %q %v, want %q", version2, path, got, err, want)
				}
			}
			r := client.Request{URL: o.URL}
			r.Header.Set("TE", "gzip")
			if _, err := c.Do(th, wait.Patience, &r); err == nil || errors.Is(err, client.ErrConnect) {
				t.Error("TE: gzip: ", err)
			}
		})
		<-done
		ls.Stop(0)
		o.Close()
	}
}
