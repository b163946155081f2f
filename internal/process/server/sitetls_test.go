package server_test

import (
	"crypto/tls"
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
)

// site is a [[site]] with a route that answers with the site's first host. keys follow its hosts.
func site(hosts, keys string) string {
	names := strings.Fields(hosts)
	text := "[[site]]\n"
	if len(names) > 0 {
		text += fmt.Sprintf("host = [\"%s\"]\n", strings.Join(names, "\", \""))
	}
	return text + keys + "\n[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\nbody = \"" +
		append(names, "other")[0] + "\"\n"
}

// pairOf is the key tls with the pair of a file.
func pairOf(file string) string {
	return fmt.Sprintf("tls = { cert = \"%s.pem\", key = \"%[1]s.key\" }", file)
}

// startSites is startTLS with the sites of a configuration, whose listener has the given keys.
func startSites(t *testing.T, put map[string]string, keys string, sites ...string) *tlsServer {
	t.Helper()
	s := newTLS(t)
	for file, names := range put {
		s.put(file, names, 90*24*time.Hour)
	}
	s.running = serve(t, s.source(), siteConfig(keys, sites...))
	return s
}

func siteConfig(keys string, sites ...string) string {
	return "threads = 2\n[[listener]]\naddress = \"127.0.0.1:0\"\n" + keys + "\n" +
		strings.Join(sites, "")
}

// TestSiteTLS: a client gets the certificate of the site that its SNI leads to; the listener's own
// ones are for all other names, and without any, those of the default site.
func TestSiteTLS(t *testing.T) {
	put := map[string]string{"a": "a.test", "b": "b.test *.b.test", "c": "c.test", "w": "*.b.test",
		"l": "l.test a.test", "none": ""}
	for _, row := range []struct {
		name, keys string
		sites      []string
		shown      map[string]string // by SNI, the first name of the certificate
	}{
		{"only sites", "tls = true", []string{site("a.test", pairOf("a")),
			site("b.test *.b.test", pairOf("b")), site("c.test", "")},
			map[string]string{"a.test": "a.test", "A.TEST": "a.test", "b.test": "b.test", "x.b.test": "b.test",
				"c.test": "a.test", "": "a.test", "other.test": "a.test"}},
		{"a default site", "tls = true", []string{site("a.test", pairOf("a")), site("", pairOf("c"))},
			map[string]string{"a.test": "a.test", "c.test": "c.test", "": "c.test", "other.test": "c.test"}},
		{"the listener's own", pairOf("l"), []string{site("a.test", pairOf("a")), site("", pairOf("c"))},
			map[string]string{"a.test": "a.test", "c.test": "c.test", "": "l.test", "other.test": "l.test",
				"l.test": "l.test"}},
		{"the site's own before that of another one", "tls = true",
			[]string{site("b.test", pairOf("b")), site("x.b.test", pairOf("w"))},
			map[string]string{"b.test": "b.test", "x.b.test": "*.b.test"}},
		{"one without names", pairOf("l"), []string{site("x.test", ""), site("n.test", pairOf("none"))},
			map[string]string{"n.test": "", "x.test": "l.test", "m.test": "l.test"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := startSites(t, put, row.keys, row.sites...)
			for sni, want := range row.shown {
				c := must.Get(tls.Dial("tcp", s.at, &tls.Config{ServerName: sni, InsecureSkipVerify: true}))(t)
				got := append(c.ConnectionState().PeerCertificates[0].DNSNames, "")[0]
				c.Close()
				if got != want {
					t.Errorf("%q: shown that of %q, want %q", sni, got, want)
				}
			}
		})
	}
}

// TestSiteTLSReload: a site that a reload adds brings its certificate along, and one that it
// removes takes it away; a file that has changed is taken up, a damaged one refuses the reload.
func TestSiteTLSReload(t *testing.T) {
	s := startSites(t, map[string]string{"a": "a.test", "b": "b.test"}, "tls = true",
		site("a.test", pairOf("a")))
	shows := func(sni, want string) {
		t.Helper()
		got, err := s.connect(&tls.Config{ServerName: sni, InsecureSkipVerify: true})
		if got != want || err != nil {
			t.Errorf("%s: %q, %v, want %q", sni, got, err, want)
		}
	}
	shows("b.test", "a.test")
	both := siteConfig("tls = true", site("a.test", pairOf("a")), site("b.test", pairOf("b")))
	s.reload(both)
	shows("b.test", "b.test")
	s.put("b", "new.b.test b.test", time.Hour)
	s.reload(both)
	shows("b.test", "new.b.test")
	must.Write(t, filepath.Join(s.dir, "b.key"), "no key")
	if err := s.Reload(); err == nil || !strings.Contains(err.Error(), "site.tls") {
		t.Errorf("reload with a damaged key: %v", err)
	}
	shows("b.test", "new.b.test")
	s.reload(siteConfig("tls = true", site("a.test", pairOf("a"))))
	shows("b.test", "a.test")
}
