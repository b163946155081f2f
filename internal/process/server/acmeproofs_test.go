package server_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/tls/certs"
)

// bothPorts is for a listener with TLS and one without, at which a site has other plans for all
// requests.
const bothPorts = `tls = { acme = true }
[[listener]]
address = "127.0.0.2:0"
[[site]]
host = "a.test"
https = "redirect"
[[site.route]]
prefix = "/"
module = "response"
body = "another text"
`

// TestACMEHTTP: a name is proved by a listener without TLS, before the site may redirect the
// authority or answer it; and there is a proof only while a challenge is open.
func TestACMEHTTP(t *testing.T) {
	leak.Goroutines(t)
	ca := acme.New(t)
	proving, proved := make(chan struct{}), make(chan struct{})
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "verify" {
			close(proving)
			<-proved
		}
		return nil
	})
	s := startACME(t, ca, t.TempDir(), `domains = "a.test", challenges = "http-01"`, bothPorts)
	ca.VerifyHTTP(s.Addresses()[1])
	<-proving
	for _, path := range []string{"none", ""} {
		if got := s.clear(t, path); got.StatusCode != 200 || got.text != "another text" {
			t.Errorf("%q beside a challenge: %s, %q", path, got.Status, got.text)
		}
	}
	close(proved)
	s.await("a.test")
	if got := s.clear(t, ca.Tokens()[0]); got.text != "another text" {
		t.Errorf("a proof after the challenge: %q", got.text)
	}
}

// answer is an answer with its body.
type answer struct {
	*http.Response
	text string
}

// clear asks the listener without TLS for a proof.
func (s *acmeServer) clear(t *testing.T, token string) answer {
	t.Helper()
	req := must.Get(http.NewRequest("GET", "http://"+s.Addresses()[1]+
		"/.well-known/acme-challenge/"+token, nil))(t)
	req.Host = "a.test"
	got := must.Get(http.DefaultTransport.RoundTrip(req))(t)
	defer http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	defer got.Body.Close()
	return answer{got, string(must.Get(io.ReadAll(got.Body))(t))}
}

// TestACMETurnsOfChallenges: after a challenge has failed, the next attempt takes the other one.
func TestACMETurnsOfChallenges(t *testing.T) {
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 5 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
	s := startACME(t, ca, t.TempDir(), `domains = "a.test"`, bothPorts)
	ca.Verify(refuse.Address(t))
	ca.VerifyHTTP(s.Addresses()[1])
	s.logged("authorization error for a.test by tls-alpn-01")
	s.await("a.test")
	if strings.Contains(s.log.String(), "by http-01") {
		t.Error(s.log.String())
	}
}

// TestACMETogether: names with spaces between them, and the hosts of a site, get one certificate.
// What was obtained for the first name alone stays in force until then.
func TestACMETogether(t *testing.T) {
	ca := acme.New(t)
	dir := t.TempDir()
	s := startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	s.await("a.test")
	const site = "tls = { acme = true }\n[[site]]\nhost = [\"c.test\", \"b.test\", \"D.test\"]\n" +
		"tls = { acme = true, joint = true }\n[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\n"
	hold := make(chan struct{})
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "newOrder" {
			<-hold
		}
		return nil
	})
	s.reload(s.text(`domains = "A.test  b.test"`, site))
	if name, err := s.ask("a.test"); name != "a.test" {
		t.Errorf("before the new one: %q, %v", name, err)
	}
	close(hold)
	s.covered("a.test", "a.test b.test")
	s.covered("b.test", "a.test b.test")
	s.covered("c.test", "c.test d.test")
	s.covered("d.test", "c.test d.test")
	if n := ca.Asked("newOrder"); n != 3 {
		t.Errorf("%d orders, want three", n)
	}
	var files []string
	for _, file := range must.Get(filepath.Glob(filepath.Join(dir, "acme", "*", "*.pem")))(t) {
		files = append(files, filepath.Base(file))
	}
	if got := strings.Join(files, " "); got != "a.test.pem c.test.pem" {
		t.Errorf("files: %s", got)
	}
}

// covered waits until a client that asks for a name gets a certificate for certain names.
func (s *acmeServer) covered(name, names string) {
	s.t.Helper()
	wait.Until(s.t, name+" in a certificate for "+names, func() bool {
		s.RenewCerts(time.Now())
		c, err := tls.Dial("tcp", s.at, &tls.Config{ServerName: name, RootCAs: s.ca.CA.Pool})
		if err != nil {
			return false
		}
		defer c.Close()
		got := c.ConnectionState().PeerCertificates[0].DNSNames
		slices.Sort(got)
		return strings.Join(got, " ") == names
	})
}

// TestACMEBinding: an account is bound to an external one, and a wrong key is refused.
func TestACMEBinding(t *testing.T) {
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 50 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca := acme.New(t)
	ca.BindAccounts("me", []byte("\xff\xfe secret"))
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "key"), "//4gc2VjcmV0\n")
	must.Write(t, filepath.Join(dir, "wrong"), "AAAA")
	s := startACME(t, ca, dir, `domains = "a.test", eab = { kid = "me", key = "wrong" }`,
		"tls = { acme = true }")
	s.logged("the binding is wrong")
	s.reload(s.text(`domains = "a.test", eab = { kid = "me", key = "key" }`, "tls = { acme = true }"))
	s.await("a.test")
}

// TestACMEFallback: another authority gives what the first one does not, with an account of its
// own; the first one is left alone for as long as it has asked.
func TestACMEFallback(t *testing.T) {
	leak.Goroutines(t)
	obtain = certs.Options{LeastPause: time.Millisecond, MostPause: 5 * time.Millisecond}
	defer func() { obtain = certs.Options{} }()
	ca, other := acme.New(t), acme.New(t)
	ca.CA.Pool.AddCert(other.CA.Cert())
	other.BindAccounts("me", []byte("secret"))
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "key"), "c2VjcmV0")
	ca.Refuse(func(step, name string) *acme.Problem {
		if step == "newOrder" {
			return &acme.Problem{Status: 429, Type: "rateLimited", Detail: "enough", RetryAfter: "3600"}
		}
		return nil
	})
	var orders atomic.Int32
	other.Refuse(func(step, name string) *acme.Problem {
		if step == "newOrder" && orders.Add(1) < 3 {
			return &acme.Problem{Status: 403, Type: "rejectedIdentifier", Detail: "not now"}
		}
		return nil
	})
	s := startACME(t, ca, dir, fmt.Sprintf(`domains = "a.test", fallback = { directory = %q, `+
		`eab = { kid = "me", key = "key" } }`, other.URL), "tls = { acme = true }")
	other.Verify(s.at)
	s.await("a.test")
	s.logged("another authority is asked")
	s.logged("has asked for a pause until")
	if n := ca.Asked("newOrder"); n != 1 {
		t.Errorf("%d orders at the authority that has asked for a pause", n)
	}
}

// TestACMERenewalInfo: a certificate is renewed when the authority says, as one that replaces the
// one before; not in a row, and not because the authority says nothing.
func TestACMERenewalInfo(t *testing.T) {
	ca := acme.New(t)
	now := time.Now()
	ca.Renew(now.Add(24*time.Hour), now.Add(48*time.Hour))
	ca.Valid(-30*time.Hour, 60*24*time.Hour)
	dir := t.TempDir()
	start := func() *acmeServer {
		return startACME(t, ca, dir, `domains = "a.test"`, "tls = { acme = true }")
	}
	s := start()
	s.await("a.test")
	s.end()
	if n := ca.Asked("renewal"); n == 0 {
		t.Error("the authority was not asked")
	}
	for _, window := range [][2]time.Time{
		{now.Add(24 * time.Hour), now.Add(48 * time.Hour)},
		{now.Add(48 * time.Hour), now.Add(24 * time.Hour)}, // ends before it begins
	} {
		ca.Renew(window[0], window[1])
		before := ca.Asked("renewal")
		s = start()
		wait.Until(t, "a question", func() bool { return ca.Asked("renewal") > before })
		s.end()
	}
	if n := ca.Asked("newOrder"); n != 1 {
		t.Fatalf("%d orders, want one", n)
	}
	ca.Renew(now.Add(-48*time.Hour), now.Add(-24*time.Hour))
	ca.Valid(-time.Hour, 60*24*time.Hour)
	s = start()
	s.logged("to be renewed at once, the authority says")
	<-s.Obtained()
	s.RenewCerts(time.Now())
	s.logged("certificate obtained")
	if all := ca.Replaced(); len(all) != 1 {
		t.Errorf("replaced: %q", all)
	}
	s.end()
	// The new one is but an hour old.
	before := ca.Asked("renewal")
	s = start()
	wait.Until(t, "a question", func() bool { return ca.Asked("renewal") > before })
	s.end()
	if n := ca.Asked("newOrder"); n != 2 {
		t.Errorf("%d orders, want two", n)
	}
}

// TestACMEBadAuthority: an authority that sends without end, cuts its answers, or sends what is
// none, costs no more than an attempt.
func TestACMEBadAuthority(t *testing.T) {
	leak.Goroutines(t)
	for what, test := range map[string]struct {
		f   http.HandlerFunc
		log string
	}{
		"a gigabyte": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			for range 1 << 14 {
				if _, err := w.Write(make([]byte, 1<<16)); err != nil {
					return
				}
			}
		}, "sends too much"},
		"drops": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, "EOF"},
		"no JSON": {func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, "{") },
			"Content-Type"},
		"another thing": {func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprint(w, "[]")
		}, "JSON-decoding"},
	} {
		t.Run(what, func(t *testing.T) {
			ca := acme.New(t)
			bad := httptest.NewUnstartedServer(test.f)
			bad.TLS = ca.CA.Config("127.0.0.1")
			bad.StartTLS()
			defer bad.Close()
			ca.URL = bad.URL + "/dir"
			s := startACME(t, ca, t.TempDir(), `domains = "a.test"`, "tls = { acme = true }")
			s.logged("certificate cannot be obtained")
			s.logged(test.log)
			s.end()
		})
	}
}

// TestACMEListeners: http-01 needs a listener without TLS, and what leads port 80 to another one is
// the operator's matter.
func TestACMEListeners(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for _, row := range []struct{ keys, more, want, warning string }{
		{`challenges = "http-01"`, "", "t.conf:2: tls.acme.challenges: http-01 needs a [[listener]] " +
			"without tls, to which port 80 of the names leads", ""},
		{`challenges = ["tls-alpn-01", "http-01"]`, "[[listener]]\naddress = \"*:8080\"\n", "",
			"no listener answers port 80"},
		{`challenges = "http-01"`, "[[listener]]\naddress = \"*:80\"\n", "", ""},
		{``, "[[listener]]\naddress = \"*:8080\"\n", "", ""},
		{`challenges = []`, "", "t.conf:2: tls.acme.challenges: expected at least one challenge", ""},
		{`challenges = "dns-02"`, "", "t.conf:2: tls.acme.challenges: expected \"tls-alpn-01\"", ""},
		{`eab = { kid = "x" }`, "", "t.conf:2: tls.acme.eab: expected both kid and key", ""},
		{`eab = { kid = "x", key = "none" }`, "", "no such file", ""},
		{`eab = { kid = "x", key = "t.conf" }`, "", "t.conf has no key in base64", ""},
		{`fallback = {}`, "", "tls.acme.fallback.directory: expected another one", ""},
		{`fallback = { directory = "http://a" }`, "", "t.conf:2: tls.acme.fallback.directory: expected " +
			"a URL with https://", ""},
		{`directory = "https://a.test/", fallback = { directory = "https://a.test/" }`, "",
			"t.conf:2: tls.acme.fallback.directory: expected another one", ""},
		{`domains = ["a.test b.test", "b.test"]`, "", "\"b.test\" is named twice", ""},
		{``, "[[site]]\ntls = { cert = \"a\", key = \"b\", joint = true }\n",
			"joint: is for acme = true", ""},
	} {
		keys := row.keys
		if !strings.Contains(keys, "domains") {
			keys = strings.TrimSuffix(`domains = "a.test", `+keys, ", ")
		}
		text := "[tls]\nacme = { " + keys + " }\n[[listener]]\naddress = \"*:443\"\n" +
			"tls = { acme = true }\n" + row.more
		must.Do(t, os.WriteFile("t.conf", []byte(text), 0o600))
		c, err := source().Parse("t.conf", text)
		if (err != nil) != (row.want != "") ||
			err != nil && !strings.Contains(err.Error(), row.want) {
			t.Errorf("%s:\n%v\nwant:\n%s", row.keys, err, row.want)
		}
		if err == nil && (c.ACMEWarning() != "") != (row.warning != "") ||
			err == nil && !strings.HasPrefix(c.ACMEWarning(), row.warning) {
			t.Errorf("%s: warning %q, want %q", row.keys, c.ACMEWarning(), row.warning)
		}
	}
}
