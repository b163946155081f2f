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

// TestFilesOfUpstreams: a certificate for upstreams, and the lists of revoked ones, are read again
// when they change. Then an idle connection to an upstream whose certificate was revoked is not
// used any more.
func TestFilesOfUpstreams(t *testing.T) {
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
	ask := func(want upstream.Want) (string, error) { return askName(r, want, nil) }
	if got, err := ask(upstream.Reused); got != "one\n" || err != nil {
		t.Fatal(got, err)
	}
	f.client("two")
	wait.Until(t, "the other certificate is used", func() bool {
		got, err := ask(upstream.Fresh)
		return err == nil && got == "two\n"
	})
	if n := pool.Idle(); n != 1 {
		t.Error(n, " connections are idle")
	}
	f.put("crl", ca.List(time.Now().Add(time.Hour), nil, certs.Leaf(own)))
	wait.Until(t, "no connection is idle", func() bool { return pool.Idle() == 0 })
	if _, err := ask(upstream.Reused); err == nil || !strings.Contains(err.Error(), "was revoked") {
		t.Error(err)
	}
	f.put("cert", []byte("none"))
	wait.Until(t, "what cannot be used is logged", func() bool {
		return strings.Contains(text.String(), "cannot be renewed")
	})
	f.put("crl", ca.List(time.Now().Add(time.Hour), nil))
	wait.Until(t, "it works again", func() bool {
		got, err := ask(upstream.Reused)
		return err == nil && got == "two\n"
	})
	pool.Age(2 * time.Hour)
}

// tlsFiles are the files of a TLS, and an upstream that has a certificate of their authority.
type tlsFiles struct {
	t       *testing.T
	ca      *certs.Authority
	dir     string
	address string
}

func newTLSFiles(t *testing.T, ca *certs.Authority, own tls.Certificate) *tlsFiles {
	t.Helper()
	ln := must.Get(tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{own},
		ClientCAs: ca.Pool, ClientAuth: tls.RequireAndVerifyClientCert}))(t)
	t.Cleanup(func() { ln.Close() })
	go func() {
		for c, err := ln.Accept(); err == nil; c, err = ln.Accept() {
			go func() { // it answers each line with the name of its client
				defer c.Close()
				for in := bufio.NewScanner(c); in.Scan(); {
					fmt.Fprintln(c, c.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName)
				}
			}()
		}
	}()
	return &tlsFiles{t, ca, t.TempDir(), ln.Addr().String()}
}

func (f *tlsFiles) at(name string) string { return filepath.Join(f.dir, name) }

func (f *tlsFiles) put(name string, text []byte) {
	f.t.Helper()
	must.Do(f.t, os.WriteFile(f.at("new"), text, 0o600))
	must.Do(f.t, os.Rename(f.at("new"), f.at(name)))
}

// client makes another certificate for the upstream.
func (f *tlsFiles) client(name string) {
	f.t.Helper()
	cert, key := f.ca.Files(f.ca.Issue(time.Hour, name))
	f.put("key", must.Get(os.ReadFile(key))(f.t))
	f.put("cert", must.Get(os.ReadFile(cert))(f.t))
}

// route loads the files.
func (f *tlsFiles) route(pool *upstream.Pool) *route {
	f.t.Helper()
	keys := upstream.TLS{CA: f.ca.File, CRL: f.at("crl"), Cert: f.at("cert"), Key: f.at("key")}
	security := must.Get(keys.Load(filepath.Clean, false))(f.t)
	return newRoute(f.t, pool, []string{"https://" + f.address}, func(s *upstream.Settings) {
		s.TLS, s.MaxIdle, s.IdleTimeout = security, 8, time.Hour
	})
}

// watchFiles begins to, until stop is called.
func watchFiles(t *testing.T, r *route, text *logtext.Buffer) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan bool)
	go func() { r.WatchFiles(ctx, logtext.Logger(t, text)); close(ended) }()
	return func() { cancel(); <-ended }
}

// askName asks the upstream for the name of its client. during is called, if it is not nil, once
// there is a connection.
func askName(r *route, want upstream.Want, during func()) (answer string, err error) {
	done := make(chan bool)
	r.loops.Go(0, func(th *loop.Thread) {
		defer close(done)
		l := r.Lease()
		defer l.Release()
		s, _, e := l.Connect(th, want)
		if err = e; e != nil {
			return
		}
		if during != nil {
			_, err = loop.Await(th, wait.Patience, func(context.Context) (bool, error) {
				during()
				return true, nil
			})
			if err != nil {
				l.Close(s)
				return
			}
		}
		c := l.Transport(s)
		if _, err = io.WriteString(c, "x\n"); err != nil {
			l.Close(s)
			return
		}
		if answer, err = bufio.NewReader(c).ReadString('\n'); err != nil {
			l.Close(s)
			return
		}
		l.NoteSuccess()
		l.Keep(s, 0)
	})
	<-done
	return answer, err
}

// TestCRLOfUpstreams: lists that cannot be used are errors of the start.
func TestCRLOfUpstreams(t *testing.T) {
	ca := certs.New(t)
	over := filepath.Join(t.TempDir(), "over")
	must.Do(t,
		os.WriteFile(over, ca.List(time.Now().Add(-time.Minute), func(*x509.RevocationList) {}), 0o600))
	for _, tt := range []struct {
		tls  upstream.TLS
		want string
	}{
		{upstream.TLS{CA: ca.File, CRL: over},
			"crl: " + over + ": list 1: that of CN=test authority has expired on"},
		{upstream.TLS{CRL: "/nowhere"}, "crl: open /nowhere: no such file"},
		{upstream.TLS{CRL: over, Insecure: true}, "crl is of no use with insecure = true"},
	} {
		if _, err := tt.tls.Load(filepath.Clean, false); err == nil ||
			!strings.HasPrefix(err.Error(), tt.want) {
			t.Errorf("%v, want %s", err, tt.want)
		}
	}
}
