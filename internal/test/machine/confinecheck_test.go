package machine_test

import (
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// TestCheckIsConfined: -t, run by root, finds what the server could not do as the user
// of [confine], and makes nothing.
func TestCheckIsConfined(t *testing.T) {
	ci.Root(t) // which becomes another user
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(100*24*time.Hour, "localhost"))
	for name, row := range map[string]struct {
		closed string // to all but root
		extra  string // of [confine]
		code   int
		want   []string // in the lines that warn, or in the error
	}{
		"nothing":     {},
		"seccomp":     {extra: "seccomp = true\n"},
		"no landlock": {extra: "landlock = false\n"},
		"a folder":    {closed: "www", want: []string{"a handler cannot read", "/www"}},
		"a key": {closed: "keys/key.pem",
			want: []string{"a reload would be refused", "key.pem: permission denied"}},
		"a log": {closed: "log", code: 2,
			want: []string{"lwango.conf:4: access_log.path: ", "log/access.log: permission denied"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJail(t)
			for from, to := range map[string]string{cert: "keys/cert.pem", key: "keys/key.pem"} {
				text := must.Read(t, from)
				j.write(to, text)
			}
			j.write("www/file.txt", "a file")
			j.write("etc/lwango.conf", `
spool_dir = "../tmp"
[access_log]
path = "../log/access.log"
[confine]
user = "65534"
group = "65534"
`+row.extra+`
[tls]
acme = { email = "a@example.org", domains = ["example.org"], cache = "../acme", directory = "https://127.0.0.1:1/" }
[[listener]]
address = "127.0.0.1:0"
tls = [{ cert = "../keys/cert.pem", key = "../keys/key.pem" }]
[[listener]]
address = "127.0.0.1:1"
tls = { acme = true }
[[site]]
[[site.route]]
prefix = "/"
module = "serve_files"
path = "../www"
`)
			if row.closed != "" {
				must.Do(t, os.Chown(j.in(row.closed), 0, 0))
				must.Do(t, os.Chmod(j.in(row.closed), 0o700))
			}
			cmd := exec.Command(built(t), "-t", "-c", j.in("etc/lwango.conf"))
			out, _ := cmd.CombinedOutput()
			code, text := cmd.ProcessState.ExitCode(), string(out)
			if code != row.code || strings.Contains(text, ": ok\n") != (code == 0) {
				t.Errorf("exit code %d, want %d:\n%s", code, row.code, text)
			}
			if row.want == nil && strings.Contains(text, "level=WARN") {
				t.Errorf("warned of something:\n%s", text)
			}
			for _, want := range row.want {
				if !strings.Contains(text, want) {
					t.Errorf("not %q:\n%s", want, text)
				}
			}
			for _, made := range []string{"acme", "log/access.log"} {
				if _, err := os.Lstat(j.in(made)); err == nil {
					t.Errorf("-t has made %s", made)
				}
			}
		})
	}
}
