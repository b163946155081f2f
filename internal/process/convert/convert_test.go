package convert_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"flag"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/convert"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

var update = flag.Bool("update", false, "write what is made into the archives in testdata")

// Each archive in testdata has a configuration of nginx, nginx.conf, with the files that it
// includes and those that it names. lwango.conf is what is made of it, and report what is said,
// with -v. DIR stands for the folder in which the archive is unpacked.
func TestConfigurations(t *testing.T) {
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal(archives, err)
	}
	for _, name := range archives {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			a, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			dir := unpack(t, a)
			var stdout, stderr bytes.Buffer
			code := convert.Main([]string{"-v", filepath.Join(dir, "nginx.conf")}, &stdout, &stderr)
			made := map[string]string{
				"lwango.conf": strings.ReplaceAll(stdout.String(), dir, "DIR"),
				"report":      strings.ReplaceAll(stderr.String(), dir, "DIR"),
			}
			left := strings.Contains(stderr.String(), ": left: ")
			if want := map[bool]int{false: 0, true: 1}[left]; code != want {
				t.Errorf("the exit code is %d; expected %d\n%s", code, want, &stderr)
			}
			accepted(t, dir, stdout.String())
			if *update {
				put(t, name, a, made)
				return
			}
			for _, f := range a.Files {
				if got, ok := made[f.Name]; ok && got != string(f.Data) {
					t.Errorf("%s: found\n%s\nexpected\n%s", f.Name, got, f.Data)
				}
				delete(made, f.Name)
			}
			if len(made) > 0 {
				t.Errorf("%s has no lwango.conf or no report; go test -update writes them", name)
			}
		})
	}
}

// unpack writes the files of an archive, but for those that the test makes, and the certificate of
// example.org.
func unpack(t *testing.T, a *txtar.Archive) (dir string) {
	t.Helper()
	dir = t.TempDir()
	writeFile := func(name string, data []byte) {
		name = filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, f := range a.Files {
		if f.Name != "lwango.conf" && f.Name != "report" {
			writeFile(f.Name, bytes.ReplaceAll(f.Data, []byte("DIR"), []byte(dir)))
		}
	}
	cert, key := pair(t)
	writeFile("cert.pem", cert)
	writeFile("key.pem", key)
	return dir
}

func pair(t *testing.T) (cert, key []byte) {
	t.Helper()
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(1000 * time.Hour), Subject: pkix.Name{CommonName: "example.org"},
		DNSNames: []string{"example.org", "*.example.org"}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &private.PublicKey, private)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		t.Fatal(err)
	}
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}),
		pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: raw})
}

// accepted checks that lwango -t would take a configuration.
func accepted(t *testing.T, dir, text string) {
	t.Helper()
	file := filepath.Join(dir, "made.conf")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	source := config.Source{File: file, Modules: config.Builtin(), Logger: logtext.Quiet}
	if _, err := source.Load(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
}

func put(t *testing.T, name string, a *txtar.Archive, made map[string]string) {
	t.Helper()
	files := a.Files[:0:0]
	for _, f := range a.Files {
		if _, ok := made[f.Name]; !ok {
			files = append(files, f)
		}
	}
	for _, n := range []string{"lwango.conf", "report"} {
		files = append(files, txtar.File{Name: n, Data: []byte(made[n])})
	}
	a.Files = files
	if err := os.WriteFile(name, txtar.Format(a), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestGuide: each block of nginx in the guide becomes what the block behind it has.
func TestGuide(t *testing.T) {
	text := must.Read(t, "../../../docs/use/from-nginx.md")
	parts := strings.Split(text, "```nginx\n")
	if len(parts) < 6 {
		t.Fatalf("%d blocks only", len(parts)-1)
	}
	for _, part := range parts[1:] {
		from, rest, _ := strings.Cut(part, "```")
		_, rest, found := strings.Cut(rest, "```toml\n")
		want, _, ends := strings.Cut(rest, "```")
		if !found || !ends {
			t.Errorf("no block of TOML behind\n%s", from)
			continue
		}
		file := filepath.Join(t.TempDir(), "nginx.conf")
		must.Do(t, os.WriteFile(file, []byte(from), 0o644))
		var stdout, stderr bytes.Buffer
		if code := convert.Main([]string{file}, &stdout, &stderr); code != 0 {
			t.Errorf("code %d: %s", code, &stderr)
		}
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("the guide has\n%s\nfound\n%s", want, &stdout)
		}
	}
}

// TestCaddyGuide: the configurations of the guide for users of Caddy are accepted.
func TestCaddyGuide(t *testing.T) {
	parts := strings.Split(must.Read(t, "../../../docs/use/from-caddy.md"), "```toml\n")
	if len(parts) < 3 {
		t.Fatalf("%d blocks only", len(parts)-1)
	}
	for _, part := range parts[1:] {
		text, _, _ := strings.Cut(part, "```")
		dir := t.TempDir()
		must.Do(t, os.MkdirAll(dir+"/srv/www", 0o755))
		must.Do(t, os.MkdirAll(dir+"/srv/blog", 0o755))
		must.Write(t, dir+"/srv/www/index.html", "")
		must.Write(t, dir+"/htpasswd", "ann:{SHA}W6ph5Mm5Pz8GgiULbPgzG37mj9g=\n")
		accepted(t, dir, strings.NewReplacer("/srv/", dir+"/srv/", "/etc/lwango", dir).Replace(text))
	}
}

// TestDelaysAndStatuses: requests wait where they do in nginx, as far as a limit lets them, and a
// page has the status that nginx gives it.
func TestDelaysAndStatuses(t *testing.T) {
	limited := func(rate, more string) string {
		return "limit_req_zone $binary_remote_addr zone=z:1m rate=" + rate +
			"; server { location / { limit_req zone=z " + more + "; proxy_pass http://127.0.0.1:9; } }"
	}
	for _, c := range []struct {
		from, want string
		code       int
	}{
		{limited("10r/s", ""), `limit = { requests = "10/s", burst = 1 }`, 0},
		{limited("10r/s", "burst=20 nodelay"), `limit = { requests = "10/s", burst = 21 }`, 0},
		{limited("10r/s", "burst=20"), `limit = { requests = "10/s", delay = 20, burst = 1 }`, 0},
		{limited("10r/s", "burst=20 delay=8"), `limit = { requests = "10/s", delay = 12, burst = 9 }`, 0},
		{limited("10r/m", "burst=10"), `limit = { requests = "10/m", delay = 10, burst = 1 }`, 0},
		{limited("10r/m", "burst=11"), `limit = { requests = "10/m", burst = 12 }`, 0},
		{limited("900r/s", "burst=251"), `limit = { requests = "900/s", burst = 252 }`, 0},
		{`server { error_page 404 405 =200 /index.html; location / { proxy_pass http://127.0.0.1:9; } }`,
			`error_pages = { 404 = "=200 /index.html", 405 = "=200 /index.html" }`, 0},
		{`server { error_page 404 = /index.html; location / { proxy_pass http://127.0.0.1:9; } }`,
			"error_page 404 = /index.html", 1},
		{`server { error_page 404 =204 /index.html; location / { proxy_pass http://127.0.0.1:9; } }`,
			"error_page 404 =204 /index.html", 1},
	} {
		dir := t.TempDir()
		must.Write(t, filepath.Join(dir, "nginx.conf"), "http { "+c.from+" }")
		var stdout, stderr bytes.Buffer
		code := convert.Main([]string{filepath.Join(dir, "nginx.conf")}, &stdout, &stderr)
		if code != c.code || !strings.Contains(stdout.String(), c.want) {
			t.Errorf("%s: code %d, expected %d and\n%s\nfound\n%s\n%s", c.from, code, c.code, c.want,
				&stdout, &stderr)
		}
		accepted(t, dir, stdout.String())
	}
}
