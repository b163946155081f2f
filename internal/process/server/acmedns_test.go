package server_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/certs"
)

// hook writes a program that keeps records as files in the folder records, by NAME and VALUE, after
// the lines of first.
func hook(t *testing.T, dir, first string) {
	t.Helper()
	must.Do(t, os.MkdirAll(filepath.Join(dir, "records"), 0o700))
	must.Do(t, os.WriteFile(filepath.Join(dir, "hook"), []byte(`#!/bin/sh
cd "${0%/*}/records"
echo "$*" >> ../calls
`+first+`
case $2 in
present) : > "$3 $4" ;;
cleanup) rm -f "$3 $4" ;;
esac
`), 0o700))
}

// records returns the values of a name that a hook has left.
func records(dir string) func(name string) []string {
	return func(name string) (all []string) {
		files, _ := os.ReadDir(filepath.Join(dir, "records"))
		for _, f := range files {
			if value, ok := strings.CutPrefix(f.Name(), name+" "); ok {
				all = append(all, value)
			}
		}
		return all
	}
}

const dnsHook = `dns = { command = ["./hook", "x"], wait = "0s", timeout = "10s" }`

// TestACMEDNS: a command proves a name and its wildcard together, and removes what it has added.
// Until there is the certificate, clients of names below are turned away.
func TestACMEDNS(t *testing.T) {
	leak.Goroutines(t)
	ca := acme.New(t)
	dir := t.TempDir()
	hook(t, dir, "")
	ca.VerifyDNS(records(dir))
	hold := make(chan struct{})
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "verify" {
			<-hold
		}
		return nil
	})
	s := startACME(t, ca, dir, `domains = ["a.test *.a.test", "*.b.test"], `+dnsHook,
		"tls = { acme = true }")
	for _, name := range []string{"x.a.test", "y.b.test", "a.test"} {
		if _, err := s.ask(name); err == nil || !strings.Contains(err.Error(), "unrecognized name") {
			t.Errorf("%s before there is a certificate: %v", name, err)
		}
	}
	close(hold)
	s.covered("x.a.test", "*.a.test a.test")
	s.covered("a.test", "*.a.test a.test")
	s.covered("y.b.test", "*.b.test")
	wait.Until(t, "the removal", func() bool {
		left := must.Get(os.ReadDir(filepath.Join(dir, "records")))(t)
		return len(left) == 0
	})
	calls := must.Read(t, filepath.Join(dir, "calls"))
	if strings.Count(calls, "x present _acme-challenge.a.test ") != 2 ||
		strings.Count(calls, "x cleanup _acme-challenge.b.test ") != 1 {
		t.Errorf("calls:\n%s", calls)
	}
	if _, err := os.Stat(acmeFile(ca, dir, "_.b.test")); err != nil {
		t.Error(err)
	}
	if n := ca.Asked("newOrder"); n != 2 {
		t.Errorf("%d orders, want two", n)
	}
}

// TestACMEDNSFails: a command that fails, hangs, or adds a wrong record, costs an attempt, and the
// log says why; and its record is removed.
func TestACMEDNSFails(t *testing.T) {
	leak.Goroutines(t)
	for what, test := range map[string]struct {
		script string
		log    []string
	}{
		"fails": {"[ $2 = cleanup ] || { echo no such zone >&2; exit 3; }",
			[]string{"exit status 3", "no such zone"}},
		"hangs": {"[ $2 = cleanup ] || { echo waiting; sleep 1000 & wait; }",
			[]string{"was killed", "waiting"}},
		"wrong": {"set -- $1 $2 $3 wrong", []string{"the records are wrong", "wrong"}},
		"floods": {"[ $2 = cleanup ] || { yes | head -c 9999999; exit 1; }",
			[]string{"exit status 1"}},
		"both": {"exit 4",
			[]string{"a record of the DNS cannot be removed", "present: exit status 4"}},
	} {
		t.Run(what, func(t *testing.T) {
			ca := acme.New(t)
			dir := t.TempDir()
			hook(t, dir, test.script)
			ca.VerifyDNS(records(dir))
			s := startACME(t, ca, dir, `domains = "a.test", `+
				strings.Replace(dnsHook, "10s", "300ms", 1), "tls = { acme = true }")
			s.logged("certificate cannot be obtained")
			for _, text := range test.log {
				s.logged(text)
			}
			if log := s.log.String(); len(log) > 16384 {
				t.Errorf("%d bytes of log", len(log))
			}
			if calls := must.Read(t, filepath.Join(dir, "calls")); !strings.Contains(calls, "cleanup") {
				t.Errorf("no cleanup:\n%s", calls)
			}
			s.end()
		})
	}
}

// TestACMEDNSOtherName: a command gets no name from the authority that was not ordered.
func TestACMEDNSOtherName(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	hook(t, dir, "")
	ca.VerifyDNS(records(dir))
	ca.Misname("b.test; reboot")
	s := startACME(t, ca, dir, `domains = "a.test", `+dnsHook, "tls = { acme = true }")
	s.logged("the authority asks for a proof of another name")
	s.end()
	if _, err := os.Stat(filepath.Join(dir, "calls")); err == nil {
		t.Errorf("calls:\n%s", must.Read(t, filepath.Join(dir, "calls")))
	}
}

// TestACMEDNSStop: a server that stops does not wait for a command that hangs.
func TestACMEDNSStop(t *testing.T) {
	leak.Goroutines(t)
	obtain = certs.Options{FinishLimit: time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
	dir := t.TempDir()
	hook(t, dir, "sleep 1000")
	s := startACME(t, ca, dir, `domains = "a.test", `+strings.Replace(dnsHook, "10s", "4m", 1),
		"tls = { acme = true }")
	wait.Until(t, "a call", func() bool {
		_, err := os.Stat(filepath.Join(dir, "calls"))
		return err == nil
	})
	s.end()
}

// zone has the records of a program.
type zone struct {
	mu  sync.Mutex
	all map[string]bool
	err error
}

func (z *zone) AddTXT(_ context.Context, name, value string) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.all[name+" "+value] = true
	return z.err
}

func (z *zone) RemoveTXT(_ context.Context, name, value string) error {
	z.mu.Lock()
	defer z.mu.Unlock()
	if !z.all[name+" "+value] {
		return errors.New("there is no such record")
	}
	delete(z.all, name+" "+value)
	return nil
}

func (z *zone) of(name string) (all []string) {
	z.mu.Lock()
	defer z.mu.Unlock()
	for record := range z.all {
		if value, ok := strings.CutPrefix(record, name+" "); ok {
			all = append(all, value)
		}
	}
	return all
}

// TestACMEDNSOfProgram: a program adds the records itself.
func TestACMEDNSOfProgram(t *testing.T) {
	ca := acme.New(t)
	z := &zone{all: map[string]bool{}}
	ca.VerifyDNS(z.of)
	txtRecords = z
	defer func() { txtRecords = nil }()
	s := startACME(t, ca, t.TempDir(), `domains = "*.a.test", dns = { wait = "1ms" }`,
		"tls = { acme = true }")
	s.covered("x.a.test", "*.a.test")
	if left := z.of("_acme-challenge.a.test"); len(left) > 0 {
		t.Errorf("left: %q", left)
	}
}

// TestACMEDNSSettings: what is wrong with dns is said, with its place.
func TestACMEDNSSettings(t *testing.T) {
	t.Chdir(t.TempDir())
	for keys, want := range map[string]string{
		`dns = {}`:                     "tls.acme.dns: expected a command: this program",
		`dns = { command = [] }`:       "t.conf:2: tls.acme.dns.command: expected a program",
		`dns = { command = "./none" }`: "none: no such file or directory",
		`dns = { command = "sh" }, challenges = "http-01"`: "tls.acme.challenges: has no effect",
		`dns = { command = "sh", timeout = "1h" }`:         "t.conf:2: tls.acme.dns.timeout: must be",
		`challenges = "dns-01"`:                            `challenges: expected "tls-alpn-01"`,
	} {
		_, err := source().Parse("t.conf", "[tls]\nacme = { domains = \"*.a.test\", "+keys+
			" }\n[[listener]]\naddress = \"*:443\"\ntls = { acme = true }\n")
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s:\n%v\nwant:\n%s", keys, err, want)
		}
	}
}
