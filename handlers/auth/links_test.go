package auth_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

const linkSecret = "0123456789abcdef0123456789abcdef"

// sign is what the manual says for Go.
func sign(secret, path string, expires int64) string {
	h := hmac.New(sha256.New, []byte(secret))
	fmt.Fprintf(h, "%d %s", expires, path)
	return fmt.Sprintf("%s?e=%d&s=%s", path, expires, base64.RawURLEncoding.EncodeToString(h.Sum(nil)))
}

func linkFile(t *testing.T, secret string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "secret")
	must.Do(t, os.WriteFile(path, []byte(secret), 0o600))
	return path
}

func TestSignedLinks(t *testing.T) {
	const old = "the secret before this one"
	m := must.Get(auth.NewLinks(auth.Links{SecretFile: []string{linkFile(t, linkSecret+"\n"),
		linkFile(t, old)}}, handlers.Env{}))(t)
	s := module.Start(t, modes.Plain, "/files",
		m(func(*conn.Request, *conn.Response) int { return 204 }))
	later, before := time.Now().Add(time.Hour).Unix(), time.Now().Add(-time.Hour).Unix()
	good := sign(linkSecret, "/files/a%20b.zip", later)
	for _, test := range []struct {
		target string
		want   int
	}{
		{good, 204},
		{good + "=", 204},
		{good + "&x=1", 204},
		{"/files/x/.." + strings.TrimPrefix(good, "/files"), 204}, // the path is what is served
		{sign(old, "/files/a", later), 204},
		{sign(linkSecret, "/files", later), 403}, // the path below the prefix is at least a slash
		{sign(linkSecret, "/files/", later), 204},
		{sign(linkSecret, "/files/a", before), 410},
		{sign("another secret, as long", "/files/a", later), 403},
		{sign("another secret, as long", "/files/a", before), 403},
		{strings.Replace(good, "a%20b", "a%20c", 1), 403},
		{strings.Replace(good, "a%20b", "%61%20b", 1), 403},
		{strings.Replace(good, "e=", "e=1", 1), 403},
		{strings.Replace(good, "e=", "e=+", 1), 403},
		{strings.Replace(good, "s=", "t=", 1), 403},
		{strings.Replace(good, "s=", "s=%00", 1), 403},
		{good[:len(good)-1], 403},
		{"/files/a%20b.zip", 403},
		{"/files/a%20b.zip?s=&e=", 403},
		{fmt.Sprintf("/files/a?e=%d&s=", later), 403},
	} {
		if got := s.Request("GET "+test.target, nil, "").StatusCode; got != test.want {
			t.Errorf("%s: %d, want %d", test.target, got, test.want)
		}
	}
}

// TestSignedLinksOverQuery: a parameter that is signed stands there once, since applications may
// take the last one.
func TestSignedLinksOverQuery(t *testing.T) {
	m := must.Get(auth.NewLinks(auth.Links{SecretFile: []string{linkFile(t, linkSecret)},
		Over: "{prefix}{path} {query.size}"}, handlers.Env{}))(t)
	s := module.Start(t, modes.Plain, "/", m(func(*conn.Request, *conn.Response) int { return 204 }))
	_, query, _ := strings.Cut(sign(linkSecret, "/a 5", time.Now().Add(time.Hour).Unix()), "?")
	for target, want := range map[string]int{"/a?size=5&" + query: 204,
		"/a?" + query + "&%73ize=5&x=1&x=2": 204, "/a?size=6&" + query: 403, "/a?" + query: 403,
		"/a?size=5&" + query + "&size=6": 403, "/a?size=5&" + query + "&s%69ze=6": 403,
		"/a?size=5&" + query + "&size": 403} {
		if got := s.Request("GET "+target, nil, "").StatusCode; got != want {
			t.Errorf("%s: %d, want %d", target, got, want)
		}
	}
}

// TestSignedLinksOfOthers: what the manual says for the shell and for PHP makes the same links.
func TestSignedLinksOfOthers(t *testing.T) {
	path := linkFile(t, linkSecret)
	readme := string(must.Get(os.ReadFile("README.md"))(t))
	want := sign(linkSecret, "/files/a.zip", 2000000000)
	for _, l := range []struct{ program, begin, end string }{
		{"sh", "    path=/files/a.zip", "\n\n"}, {"php", "    <?php", "\n\n"},
	} {
		if _, err := exec.LookPath(l.program); err != nil {
			ci.Lacks(t, l.program)
		}
		_, text, ok := strings.Cut(readme, l.begin)
		text, _, _ = strings.Cut(l.begin+text, l.end)
		if !ok {
			t.Fatalf("no text for %s", l.program)
		}
		text = strings.NewReplacer("/etc/lwango/links.key", path, "$(($(date +%s) + 3600))",
			"2000000000", "time() + 3600", "2000000000").Replace(text)
		cmd := exec.Command(l.program)
		cmd.Stdin = strings.NewReader(text)
		out, err := cmd.CombinedOutput()
		if got := strings.TrimSpace(string(out)); got != want || err != nil {
			t.Errorf("%s: %v\ngot  %s\nwant %s", l.program, err, got, want)
		}
	}
}

func TestSignedLinksErrors(t *testing.T) {
	path := linkFile(t, linkSecret)
	short := linkFile(t, "short\n")
	for _, test := range []struct {
		set  auth.Links
		want string
	}{
		{auth.Links{}, "secret_file: missing; expected the path of a file"},
		{auth.Links{SecretFile: []string{short}}, "secret_file: " + short + ": expected a secret of 16 " +
			"bytes to 4096, which openssl rand -hex 32 makes"},
		{auth.Links{SecretFile: []string{path}, Over: "x"}, `over: "x": expected a text with ` +
			`placeholders: one signature would be for all requests`},
		{auth.Links{SecretFile: []string{path}, Expires: "s"},
			"expires: is the parameter of the signature"},
		{auth.Links{SecretFile: []string{path}, Signature: "a b"},
			`signature: "a b": expected the name of a parameter, such as "s"`},
	} {
		if _, err := auth.NewLinks(test.set, handlers.Env{}); err == nil || err.Error() != test.want {
			t.Errorf("got  %v\nwant %s", err, test.want)
		}
	}
}
