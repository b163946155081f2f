package crl_test

import (
	"bytes"
	"crypto/x509"
	"io"
	"log/slog"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/tls/crl"
)

// renewed has a file read again, and says what has become of that.
func renewed(f *crl.File, now time.Time, log *slog.Logger) string {
	switch renewed, stricter := f.Renew(now, log); {
	case stricter && !renewed:
		return "stricter, but not renewed"
	case stricter:
		return "stricter"
	case renewed:
		return "renewed"
	}
	return ""
}

// replace writes other lists to a file.
func replace(t *testing.T, path string, lists ...[]byte) {
	t.Helper()
	must.Do(t, os.WriteFile(path+".new", bytes.Join(lists, nil), 0o600))
	must.Do(t, os.Rename(path+".new", path))
}

// TestRenewUnread: a file that could not be read is read at the next look, though it has not
// changed.
func TestRenewUnread(t *testing.T) {
	now := time.Now()
	root := certs.New(t)
	c := certs.Leaf(root.Issue(time.Hour, "c"))
	path := file(t, root.List(now.Add(time.Hour), nil))
	f := must.Get(crl.Open(path, nil, now))(t)
	replace(t, path, root.List(now.Add(time.Hour), nil, c))
	text := new(logtext.Buffer)
	log := slog.New(slog.NewTextHandler(text, nil))
	var limit syscall.Rlimit
	must.Do(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	none := limit
	none.Cur = 0
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none))
	first, second := renewed(f, now, log), renewed(f, now, log)
	must.Do(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	if n := strings.Count(text.String(), "the old ones stay"); n != 1 || first != "" || second != "" {
		t.Errorf("%q, %q, %d lines: %s", first, second, n, text)
	}
	if got := renewed(f, now, log); got != "stricter" ||
		f.Verify([][]*x509.Certificate{{c, root.Cert()}}, now) == nil {
		t.Errorf("the file is not read again: %q", got)
	}
}

// TestRenewTimes: a list whose time is over, or to come, keeps no other one of its file from being
// used.
func TestRenewTimes(t *testing.T) {
	t.Parallel()
	now := time.Now()
	until := now.Add(time.Hour)
	root := certs.New(t)
	below := root.Below("below")
	direct, low := certs.Leaf(root.Issue(time.Hour, "a")), certs.Leaf(below.Issue(time.Hour, "b"))
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	soon := func(l *x509.RevocationList) { l.ThisUpdate = now.Add(time.Minute) }
	short := below.List(now.Add(time.Minute), nil)
	path := file(t, root.List(until, nil), short)
	f := must.Get(crl.Open(path, []*x509.Certificate{root.Cert()}, now))(t)
	look := func(at time.Time, want, ofDirect, ofLow string) {
		t.Helper()
		if got := renewed(f, at, log); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		for c, want := range map[*x509.Certificate]string{direct: ofDirect, low: ofLow} {
			chain := []*x509.Certificate{c, root.Cert()}
			if c == low {
				chain = []*x509.Certificate{c, below.Cert(), root.Cert()}
			}
			err := f.Verify([][]*x509.Certificate{chain}, at)
			if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v, want %q", c.Subject, err, want)
			}
		}
	}
	look(now, "", "", "")
	replace(t, path, root.List(until, nil), short)
	look(now, "renewed", "", "")
	replace(t, path, root.List(until, soon, direct), below.List(until, nil))
	look(now, "renewed", "", "")
	replace(t, path, root.List(until, soon, direct), below.List(until, nil, low))
	look(now, "stricter", "", "was revoked")
	look(now.Add(2*time.Minute), "stricter", "was revoked", "was revoked")
	look(now.Add(2*time.Minute), "", "was revoked", "was revoked")
	replace(t, path, root.List(until, soon), below.List(until, nil))
	look(now.Add(2*time.Minute), "renewed", "", "")
	replace(t, path, root.List(until, soon, direct), short)
	look(now.Add(2*time.Minute), "stricter", "was revoked", "has expired")
	replace(t, path, root.List(until, soon, direct))
	look(now.Add(2*time.Minute), "stricter", "was revoked", "no revocation list of CN=below")
}
