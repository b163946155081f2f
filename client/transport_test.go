package client_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
)

// origins are a server of HTTP/1.1, one over TLS, and two of HTTP/2, with a Transport for each.
func origins(t *testing.T, h http.HandlerFunc,
	f func(t *testing.T, url string, tr *client.Transport)) {
	for name, protocol := range map[string]struct{ tls, http2 bool }{
		"HTTP/1.1": {}, "HTTP/1.1 over TLS": {tls: true},
		"HTTP/2": {http2: true}, "HTTP/2 over TLS": {true, true},
	} {
		t.Run(name, func(t *testing.T) {
			if protocol.http2 {
				url, _, c := origin2(t, protocol.tls, h)
				f(t, url, &client.Transport{Client: c})
				return
			}
			o, c := httptest.NewUnstartedServer(h), new(client.Client)
			if protocol.tls {
				o.StartTLS()
				c.TLS = o.Client().Transport.(*http.Transport).TLSClientConfig
			} else {
				o.Start()
			}
			t.Cleanup(o.Close)
			f(t, o.URL, &client.Transport{Client: c})
		})
	}
}

// TestTransport: an http.Client sends what it sends with net/http's Transport, and gets the same.
func TestTransport(t *testing.T) {
	large := strings.Repeat("x", 3<<20)
	serve := func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/redirect":
			http.SetCookie(w, &http.Cookie{Name: "session", Value: "7", Path: "/"})
			http.Redirect(w, r, "/tell", http.StatusTemporaryRedirect)
			return
		case "/large":
			io.WriteString(w, large)
			return
		case "/trailer":
			w.Header().Set("Trailer", "X-Sum")
			io.WriteString(w, "body")
			w.Header().Set("X-Sum", "4")
			return
		case "/204":
			w.WriteHeader(204)
			return
		}
		body, err := io.ReadAll(r.Body)
		w.Header().Add("X-Two", "a")
		w.Header().Add("X-Two", "b")
		fmt.Fprintln(w, r.Method, r.Host, r.RequestURI, len(body), err, r.Header["X-Two"],
			r.Header.Get("Cookie"), r.Header.Get("Authorization"))
	}
	reader := func(s string) io.Reader { return struct{ io.Reader }{strings.NewReader(s)} }
	rows := []struct {
		method, path string
		body         func() io.Reader
		change       func(r *http.Request)
	}{
		{"GET", "/a%2Fb/%C3%A9?x=1&y=%zz", nil, nil},
		{"HEAD", "/", nil, nil},
		{"POST", "/", func() io.Reader { return strings.NewReader("short") }, nil},
		{"PUT", "/", func() io.Reader { return bytes.NewReader([]byte(large)) }, nil},
		{"POST", "/", func() io.Reader { return reader("of unknown length") }, nil},
		{"POST", "/", func() io.Reader { return reader(large) }, nil},
		{"POST", "/", func() io.Reader { return http.NoBody }, nil},
		{"POST", "/redirect", func() io.Reader { return strings.NewReader("again") }, nil},
		{"GET", "/redirect", nil, nil},
		{"GET", "/large", nil, nil},
		{"GET", "/trailer", nil, nil},
		{"GET", "/204", nil, nil},
		{"DELETE", "/", nil, nil},
		{"GET", "/", nil, func(r *http.Request) {
			r.Header.Add("X-Two", "1")
			r.Header.Add("X-Two", "2")
			r.Host = "bucket.example"
			r.SetBasicAuth("ann", "pw")
		}},
		{"GET", "/", nil, func(r *http.Request) { r.URL.User = nil; r.Header.Set("Connection", "close") }},
		{"PUT", "/", func() io.Reader { return strings.NewReader(large) }, func(r *http.Request) {
			r.Header.Set("Expect", "100-continue")
		}},
	}
	origins(t, serve, func(t *testing.T, url string, tr *client.Transport) {
		ask := func(ctx context.Context, c *http.Client) (all []string) {
			for _, row := range rows {
				var body io.Reader
				if row.body != nil {
					body = row.body()
				}
				r := must.Get(http.NewRequestWithContext(ctx, row.method, url+row.path, body))(t)
				if row.change != nil {
					row.change(r)
				}
				a, err := c.Do(r)
				if err != nil {
					all = append(all, err.Error())
					continue
				}
				text, err := io.ReadAll(a.Body)
				a.Body.Close()
				a.Header.Del("Date")
				all = append(all, fmt.Sprintf("%s %s %s: %s %s %d %q %v %q %.200s %d %v", row.method,
					row.path, a.Request.URL.Path, a.Status, a.Proto, a.ContentLength, a.Header, a.Trailer,
					a.Cookies(), text, len(text), err))
			}
			return all
		}
		jar := func() http.CookieJar { return must.Get(cookiejar.New(nil))(t) }
		std := http.DefaultTransport.(*http.Transport).Clone()
		std.DisableCompression = true
		std.TLSClientConfig = tr.Client.TLS.Clone()
		if std.ForceAttemptHTTP2 = tr.Client.HTTP2; tr.Client.HTTP2 {
			std.Protocols = new(http.Protocols)
			std.Protocols.SetHTTP2(true)
			std.Protocols.SetUnencryptedHTTP2(true)
		}
		defer std.CloseIdleConnections()
		want := ask(context.Background(), &http.Client{Transport: std, Jar: jar()})
		var got []string
		onThread(t, func(th *loop.Thread) {
			got = ask(client.OnThread(context.Background(), th), &http.Client{Transport: tr, Jar: jar()})
		})
		for i := range want {
			if got[i] != want[i] {
				t.Errorf("got  %.600s\nwant %.600s", got[i], want[i])
			}
		}
	})
}

// TestTransportEnds: the end of the context ends the wait for the head, and for the body, with the
// context's error; so do the timeout of the http.Client and the Transport's limit.
func TestTransportEnds(t *testing.T) {
	entered := make(chan bool, 1)
	stop := make(chan bool)
	serve := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			io.WriteString(w, "some")
			_ = http.NewResponseController(w).Flush()
		}
		if r.URL.Query().Has("cancel") {
			entered <- true
		}
		select {
		case <-r.Context().Done():
		case <-stop:
		}
	}
	origins(t, serve, func(t *testing.T, url string, tr *client.Transport) {
		for _, path := range []string{"/head", "/body"} {
			for name, want := range map[string]error{"cancel": context.Canceled,
				"deadline": context.DeadlineExceeded, "timeout": context.DeadlineExceeded,
				"limit": loop.ErrDeadlineExceeded} {
				onThread(t, func(th *loop.Thread) {
					ctx, cancel := context.WithCancel(client.OnThread(context.Background(), th))
					defer cancel()
					c := &http.Client{Transport: tr}
					switch name {
					case "cancel":
						go func() { <-entered; cancel() }()
					case "deadline":
						ctx, cancel = context.WithTimeout(ctx, 50*time.Millisecond)
						defer cancel()
					case "timeout":
						c.Timeout = 50 * time.Millisecond
					case "limit":
						c.Transport = &client.Transport{Client: tr.Client, Limit: 50 * time.Millisecond}
					}
					r := must.Get(http.NewRequestWithContext(ctx, "GET", url+path+"?"+name, nil))(t)
					a, err := c.Do(r)
					if err == nil {
						_, err = io.ReadAll(a.Body)
						a.Body.Close()
					}
					if !errors.Is(err, want) {
						t.Errorf("%s, %s: %v, want %v", path, name, err, want)
					}
					if err := th.Sleep(time.Millisecond); err != nil {
						t.Error("behind it:", err)
					}
				})
			}
		}
	})
	close(stop)
}

// TestTransportRefuses: requests from elsewhere, and what cannot be sent.
func TestTransportRefuses(t *testing.T) {
	o := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, "body")
	}))
	defer o.Close()
	tr := new(client.Transport)
	get := func(ctx context.Context, tr http.RoundTripper, change func(r *http.Request)) error {
		r := must.Get(http.NewRequestWithContext(ctx, "POST", o.URL, strings.NewReader("body")))(t)
		if change != nil {
			change(r)
		}
		a, err := tr.RoundTrip(r)
		if err == nil {
			_, err = io.ReadAll(a.Body)
			a.Body.Close()
		}
		return err
	}
	if err := get(context.Background(), tr, nil); err != client.ErrNotOnThread {
		t.Error("no thread:", err)
	}
	onThread(t, func(th *loop.Thread) {
		ctx := client.OnThread(context.Background(), th)
		away := func(tr http.RoundTripper) error {
			return th.Await(time.Minute, func(context.Context) error { return get(ctx, tr, nil) })
		}
		if err := away(tr); err != client.ErrNotOnThread {
			t.Error("off the loop:", err)
		}
		std := new(http.Transport)
		defer std.CloseIdleConnections()
		if err := away(&client.Transport{Elsewhere: std}); err != nil {
			t.Error("elsewhere:", err)
		}
		th.Go(func(other *loop.Thread) error {
			if err := get(ctx, tr, nil); err != client.ErrNotOnThread {
				t.Error("another thread:", err)
			}
			if err := get(client.OnThread(ctx, other), tr, nil); err != nil {
				t.Error("its own:", err)
			}
			return nil
		})
		_ = th.Join()
		a := must.Get(tr.RoundTrip(must.Get(http.NewRequestWithContext(ctx, "GET", o.URL, nil))(t)))(t)
		_ = th.Await(time.Minute, func(context.Context) error {
			if _, err := io.ReadAll(a.Body); err != client.ErrNotOnThread {
				t.Error("a body off the loop:", err)
			}
			return nil
		})
		a.Body.Close()
		for name, change := range map[string]func(r *http.Request){
			"trailer": func(r *http.Request) { r.Trailer = http.Header{"X": nil} },
			"upgrade": func(r *http.Request) { r.Header.Set("Upgrade", "websocket") },
		} {
			if err := get(ctx, tr, change); !errors.Is(err, http.ErrNotSupported) {
				t.Errorf("%s: %v", name, err)
			}
		}
		if err := get(ctx, tr, func(r *http.Request) { r.ContentLength = 9 }); !errors.Is(err,
			io.ErrUnexpectedEOF) {
			t.Error("a short body:", err)
		}
		if err := get(ctx, tr, func(r *http.Request) { r.URL.Host = "127.0.0.1:1" }); !errors.Is(err,
			client.ErrConnect) {
			t.Error("no server:", err)
		}
	})
}
