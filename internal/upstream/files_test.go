package upstream_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// TestFilesOfUpstreams: a certificate for upstreams, and the lists of revoked ones, are read again when
// they change. Then a kept connection to an upstream whose certificate was revoked is not used any more.
func TestFilesOfUpstreams(t *testing.T) {
	t.Cleanup(upstream.FilesEvery(time.Millisecond))
	ca := certs.New(t)
	own := ca.Issue(time.Hour, "127.0.0.1")
	ln := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own},
		ClientCAs: ca.Pool, ClientAuth: tls.RequireAndVerifyClientCert}))(t)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			go func() { // it answers each line with the name of its client
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					fmt.Fprintln(c, c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName)
				}
			}()
		}
	}()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	put := func(name string, text []byte) {
		must.Do(t, os.WriteFile(at("new"), text, 0o600))
		must.Do(t, os.Rename(at("new"), at(name)))
	}
	client := func(name string) {
		cert, key := ca.Files(ca.Issue(time.Hour, name))
		put("key", must.Get(os.ReadFile(key))(t))
		put("cert", must.Get(os.ReadFile(cert))(t))
	}
	client("one")
	put("crl", ca.List(time.Now().Add(time.Hour), nil))
	security := must.Get((&upstream.TLS{CA: ca.File, CRL: at("crl"), Cert: at("cert"), Key: at("key")}).Load(filepath.Clean, false))(t)
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"https://" + ln.Addr().String()}, func(s *upstream.Settings) {
		s.TLS, s.MaxIdle, s.IdleTimeout = security, 8, wait.Patience
	})
	text := new(logtext.Buffer)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { r.WatchFiles(ctx, logtext.Logger(t, text)); close(ended) }()
	defer func() { cancel(); <-ended }()

	ask := func(want upstream.Want) (answer string, err error) {
		done := make(chan bool)
		r.loops.Go(0, func(th *loop.Thread) {
			defer close(done)
			l := r.Lease()
			defer l.Release()
			s, _, e := l.Connect(th, want)
			if err = e; e != nil {
				return
			}
			c := l.Over(s)
			if _, err = io.WriteString(c, "x\n"); err != nil {
				l.Close(s)
				return
			}
			if answer, err = bufio.NewReader(c).ReadString('\n'); err != nil {
				l.Close(s)
				return
			}
			l.Works()
			l.Keep(s, 0)
		})
		<-done
		return answer, err
	}
	if got, err := ask(upstream.Kept); got != "one\n" || err != nil {
		t.Fatal(got, err)
	}
	client("two")
	wait.Until(t, "the other certificate is used", func() bool {
		got, err := ask(upstream.Fresh)
		return err == nil && got == "two\n"
	})
	if n := pool.Idle(); n != 1 {
		t.Error(n, " connections are kept")
	}
	put("crl", ca.List(time.Now().Add(time.Hour), nil, certs.Leaf(own)))
	wait.Until(t, "no connection is kept", func() bool { return pool.Idle() == 0 })
	if _, err := ask(upstream.Kept); err == nil || !strings.Contains(err.Error(), "was revoked") {
		t.Error(err)
	}
	put("cert", []byte("none"))
	wait.Until(t, "what cannot be used is logged", func() bool { return strings.Contains(text.String(), "cannot be renewed") })
	put("crl", ca.List(time.Now().Add(time.Hour), nil))
	wait.Until(t, "it works again", func() bool {
		got, err := ask(upstream.Kept)
		return err == nil && got == "two\n"
	})
	pool.Age(2 * wait.Patience)
}

// TestCRLOfUpstreams: lists that cannot be used are errors of the start.
func TestCRLOfUpstreams(t *testing.T) {
	ca := certs.New(t)
	over := filepath.Join(t.TempDir(), "over")
	must.Do(t, os.WriteFile(over, ca.List(time.Now().Add(-time.Minute), func(*x509.RevocationList) {}), 0o600))
	for _, tt := range []struct {
		tls  upstream.TLS
		want string
	}{
		{upstream.TLS{CA: ca.File, CRL: over}, "crl: " + over + ": list 1: that of CN=test authority has expired on"},
		{upstream.TLS{CRL: "/nowhere"}, "crl: open /nowhere: no such file"},
		{upstream.TLS{CRL: over, Insecure: true}, "crl is of no use with insecure = true"},
	} {
		if _, err := tt.tls.Load(filepath.Clean, false); err == nil || !strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
