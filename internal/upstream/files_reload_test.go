package upstream_test

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestFilesAfterReload: a pool goes by the files of the last configuration, whether these have
// changed before or after that was loaded.
func TestFilesAfterReload(t *testing.T) {
	t.Cleanup(upstream.FilesEvery(time.Millisecond))
	for _, before := range []bool{true, false} {
		ca := certs.New(t)
		own := ca.Issue(time.Hour, "127.0.0.1")
		f := newTLSFiles(t, ca, own)
		f.client("one")
		f.put("crl", ca.List(time.Now().Add(time.Hour), nil))
		pool := new(upstream.Pool)
		r := f.route(pool)
		stop := watchFiles(t, r, new(logtext.Buffer))
		if got, err := askName(r, upstream.Reused, nil); got != "one\n" || err != nil {
			t.Fatal(got, err)
		}
		stop()
		change := func() {
			f.client("two")
			f.put("crl", ca.List(time.Now().Add(time.Hour), nil, certs.Leaf(own)))
		}
		if before {
			change()
		}
		r = f.route(pool)
		stop = watchFiles(t, r, new(logtext.Buffer))
		if !before {
			if n := pool.Idle(); n != 1 {
				t.Error(n, " connections are idle over a reload")
			}
			change()
		}
		wait.Until(t, "no connection is idle", func() bool { return pool.Idle() == 0 })
		if _, err := askName(r, upstream.Reused, nil); err == nil ||
			!strings.Contains(err.Error(), "was revoked") {
			t.Error(err)
		}
		f.put("crl", ca.List(time.Now().Add(time.Hour), nil))
		wait.Until(t, "the other certificate is used", func() bool {
			got, err := askName(r, upstream.Reused, nil)
			return err == nil && got == "two\n"
		})
		stop()
		if n := pool.Backends(); n != 1 {
			t.Error(n, " backends")
		}
		pool.Age(2 * time.Hour)
	}
}

// TestFilesInUse: a connection that is in use when lists change is not kept. Neither is a session
// of the earlier certificate, whose ticket comes with the answer.
func TestFilesInUse(t *testing.T) {
	t.Cleanup(upstream.FilesEvery(time.Millisecond))
	ca := certs.New(t)
	own := ca.Issue(time.Hour, "127.0.0.1")
	f := newTLSFiles(t, ca, own)
	f.client("one")
	f.put("crl", ca.List(time.Now().Add(time.Hour), nil))
	pool := new(upstream.Pool)
	r := f.route(pool)
	text := new(logtext.Buffer)
	defer watchFiles(t, r, text)()
	got, err := askName(r, upstream.Reused, func() {
		must.Get(askName(r, upstream.Reused, nil))(t)
		f.client("two")
		wait.Until(t, "the idle connection ends", func() bool { return pool.Idle() == 0 })
	})
	if got != "one\n" || err != nil {
		t.Error(got, err)
	}
	if n := pool.Idle(); n != 0 {
		t.Error(n, " connections of the earlier certificate are idle")
	}
	if got, err := askName(r, upstream.Reused, nil); got != "two\n" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	pool.Age(2 * time.Hour)
}

// TestFilesDuringHandshake: a connection of HTTP/2 that was being made when files have changed
// serves the request for which it was made, and no other one.
func TestFilesDuringHandshake(t *testing.T) {
	t.Cleanup(upstream.FilesEvery(time.Millisecond))
	ca := certs.New(t)
	config := &tls.Config{Certificates: []tls.Certificate{ca.Issue(time.Hour, "127.0.0.1")},
		NextProtos: []string{"h2"}}
	s := startSilent(t, "127.0.0.1:0", config, true)
	f := &tlsFiles{t, ca, t.TempDir(), s.addr}
	f.client("one")
	security := must.Get((&upstream.TLS{CA: ca.File, Cert: f.at("cert"), Key: f.at("key")}).Load(
		filepath.Clean, false))(t)
	r := newRoute(t, new(upstream.Pool), []string{"https://" + s.addr}, func(s *upstream.Settings) {
		by2(s)
		s.TLS = security
	})
	text := new(logtext.Buffer)
	defer watchFiles(t, r, text)()
	first := make(chan error)
	go func() { first <- connect(t, r.loops, r.Group, nil) }()
	c := <-s.first
	defer c.Close()
	in := bufio.NewReader(c)
	must.Get(in.Peek(1))(t) // the handshake has begun
	over := tls.Server(buffered{c, in}, config)
	hello := make(chan bool)
	go func() {
		<-hello
		_, _ = over.Write(http2.AppendHeader(nil, http2.SettingsFrame, 0, 0, 0))
		_, _ = io.Copy(io.Discard, over)
	}()
	f.client("two")
	wait.Until(t, "the files are read again", func() bool {
		return strings.Contains(text.String(), "upstreams renewed")
	})
	close(hello)
	if err := <-first; err != nil {
		t.Error(err)
	}
	if err := connect(t, r.loops, r.Group, nil); err != nil {
		t.Error(err)
	}
	if n := s.accepted.Load(); n != 2 {
		t.Error(n, " connections, want another one for the second request")
	}
}

// buffered is a connection of which something has been read.
type buffered struct {
	net.Conn
	in *bufio.Reader
}

func (b buffered) Read(p []byte) (int, error) { return b.in.Read(p) }
