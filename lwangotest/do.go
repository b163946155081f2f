package lwangotest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// Do gives h one request, and returns its answer. It needs no Server, and no port: as a test of
// net/http calls ServeHTTP with an httptest.ResponseRecorder.
//
//	r := httptest.NewRequest("POST", "/items", strings.NewReader(`{"name": "tea"}`))
//	r.Header.Set("Content-Type", "application/json")
//	a := lwangotest.Do(t, mux.Serve, r)
//
// h runs on a green thread, with all that it has in a server: it may wait, run functions off the
// loop, and start threads. It gets method, path, query, header, body and trailers of r, and Host
// or, as from httptest.NewRequest, example.com. Its RemoteAddr is that of r, 192.0.2.1:1234 by
// httptest.NewRequest, and it is Secure if r has a TLS. The limits are the default ones.
//
// Do returns when h and its threads have ended, for which they have a second after the answer. If
// r's Context ends before the answer, the client leaves, and Do returns an Answer with StatusCode 0
// once h has ended. The test fails if h panics, or if the answer is not complete. The goroutine of
// a test calls Do; several tests may do so at the same time.
func Do(t testing.TB, h conn.Handler, r *http.Request) Answer {
	t.Helper()
	if r.Host == "" && r.URL.Host == "" {
		r = r.Clone(r.Context())
		r.Host = "example.com"
	}
	log := new(logtext.Buffer)
	logger, _ := logtext.Watch(t, slog.New(slog.NewTextHandler(log, nil)))
	server := conn.NewServer(conn.Config{Handler: h, Logger: logger,
		Proxies: map[string]*conn.Proxies{"": {UNIX: true, Protocol: true}}})
	var address string
	ls := loops.Start(t, modes.Direct, logger, func(l *loop.Loop) {
		fd, err := loop.Listen("unix", "", false) // the kernel gives it a name, which is in no folder
		if err != nil {
			t.Fatal(err)
		}
		if sa, err := unix.Getsockname(fd); err != nil {
			t.Fatal(err)
		} else {
			address = sa.(*unix.SockaddrUnix).Name
		}
		if _, err := server.Listen(l, conn.Listener{FD: fd}); err != nil {
			t.Fatal(err)
		}
	})
	a, err := exchange(address, r)
	ls.Stop(time.Second)
	if err != nil && r.Context().Err() != nil {
		return Answer{Response: &http.Response{Header: http.Header{}, Body: http.NoBody, Request: r}}
	}
	if err != nil {
		t.Fatalf("%s %s: %v\nthe log:\n%s", r.Method, r.URL, err, log.String())
	}
	return a
}

// exchange sends r to the server at a UNIX address, and reads the answer. The connection ends with
// it, or with the Context of r.
func exchange(address string, r *http.Request) (Answer, error) {
	c, err := net.Dial("unix", address)
	if err != nil {
		return Answer{}, err
	}
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	defer context.AfterFunc(r.Context(), func() { c.Close() })()
	sent := make(chan struct{})
	go func() { // the handler may answer before it has read the body, or without reading it
		defer close(sent)
		w := bufio.NewWriter(c)
		out := r.Clone(context.WithoutCancel(r.Context()))
		if out.Header.Get("User-Agent") == "" {
			out.Header.Set("User-Agent", "") // none, instead of the client's own
		}
		fmt.Fprint(w, proxyHeader(r))
		if err := out.Write(w); err == nil {
			_ = w.Flush()
		} else {
			c.Close() // a body that cannot be read, which has no answer
		}
	}()
	defer func() { c.Close(); <-sent }()
	in := bufio.NewReader(c)
	resp, err := http.ReadResponse(in, r)
	for err == nil && resp.StatusCode < 200 && resp.StatusCode != http.StatusSwitchingProtocols {
		resp, err = http.ReadResponse(in, r)
	}
	if err != nil {
		return Answer{}, fmt.Errorf("no answer: %w", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusSwitchingProtocols {
		return Answer{resp, ""}, nil
	}
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		return Answer{}, fmt.Errorf("the answer ends after %d bytes of the body: %w", len(text), err)
	}
	return Answer{resp, string(text)}, nil
}

// proxyHeader is a header of the PROXY protocol, by which the server learns the client's address,
// and from the port whether it speaks TLS.
func proxyHeader(r *http.Request) string {
	client, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		client = netip.MustParseAddrPort("192.0.2.1:1234") // as httptest.NewRequest has it
	}
	family, local, port := "TCP4", "127.0.0.1", 80
	if client.Addr().Is6() {
		family, local = "TCP6", "::1"
	}
	if r.TLS != nil {
		port = 443
	}
	return fmt.Sprintf("PROXY %s %s %s %d %d\r\n", family, client.Addr().WithZone(""), local,
		client.Port(), port)
}
