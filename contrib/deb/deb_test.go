// Package deb has the tests of the Debian package.
package deb

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

const root = "../.."

// TestPackage: the package is the same wherever it is built; it is installed into a folder, its
// program runs there as its own user with nothing around it, and upgrade and removal leave what is
// the operator's.
func TestPackage(t *testing.T) {
	ci.Root(t)
	ci.Without(t, race.Enabled, "the program of the package is the same one with the race detector")
	for _, tool := range []string{"dpkg", "dpkg-deb", "systemd-sysusers", "git"} {
		must.Get(exec.LookPath(tool))(t)
	}
	one, two := build(t, root, "1.0.0"), build(t, root, "1.0.1")
	if a, b := sum(t, one), sum(t, build(t, copied(t), "1.0.0")); a != b {
		t.Error("another folder makes another package")
	}
	if _, err := exec.LookPath("lintian"); err == nil {
		run(t, exec.Command("lintian", "--fail-on", "error,warning", one))
	}

	dir := filepath.Join(t.TempDir(), "root")
	for _, d := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "etc", "tmp"} {
		must.Do(t, os.MkdirAll(filepath.Join(dir, d), 0o755))
	}
	must.Do(t, os.Chmod(filepath.Join(dir, "tmp"), 0o777|os.ModeSticky))
	must.Do(t, os.Chmod(filepath.Dir(dir), 0o755))
	must.Do(t, os.WriteFile(filepath.Join(dir, "var/lib/dpkg/status"), nil, 0o644))
	dpkg := func(args ...string) {
		t.Helper()
		run(t, exec.Command("dpkg",
			append([]string{"--root=" + dir, "--force-script-chrootless", "--force-depends",
				"--force-confold"}, args...)...))
	}
	there := func(path string) bool {
		_, err := os.Lstat(filepath.Join(dir, path))
		return err == nil
	}

	dpkg("-i", one)
	for _, path := range []string{
		"usr/lib/systemd/system/lwango.service", "usr/lib/systemd/system/lwango.socket",
		"usr/share/man/man1/lwango.1.gz",
		"usr/share/man/man5/lwango.conf.5.gz", "usr/share/bash-completion/completions/lwango",
		"etc/logrotate.d/lwango",
	} {
		if !there(path) {
			t.Errorf("%s is not there", path)
		}
	}
	conf := filepath.Join(dir, "etc/lwango/lwango.conf")
	must.Do(t,
		os.WriteFile(filepath.Join(dir, "var/www/html/index.html"), []byte("from the package"), 0o644))
	// as RuntimeDirectory= of the unit
	must.Do(t, os.MkdirAll(filepath.Join(dir, "run/lwango"), 0o755))
	as := user(t, dir)
	must.Do(t, os.Chown(filepath.Join(dir, "run/lwango"), int(as.Uid), int(as.Gid)))
	visit(t, dir, "v1.0.0")

	text, err := os.ReadFile(conf)
	must.Do(t, err)
	must.Do(t, os.WriteFile(conf, append(text, "\n[site.headers_of_mine]\n"...), 0o644))
	if err := inside(t, dir, "-t", "-c", "/etc/lwango/lwango.conf").Run(); err == nil {
		t.Error("a wrong configuration is taken")
	}
	must.Do(t, os.WriteFile(conf, append(text, "\n# mine\n"...), 0o644))
	dpkg("-i", two)
	if now, _ := os.ReadFile(conf); !bytes.HasSuffix(now, []byte("# mine\n")) {
		t.Error("the upgrade has changed the configuration")
	}
	visit(t, dir, "v1.0.1")

	dpkg("-r", "lwango")
	if there("usr/bin/lwango") || !there("etc/lwango/lwango.conf") ||
		!there("var/log/lwango/access.log") {
		t.Error("after removal, the program is there, or configuration and log are not")
	}
	dpkg("-P", "lwango")
	if there("etc/lwango/lwango.conf") || there("etc/logrotate.d/lwango") || there("var/log/lwango") {
		t.Error("after purging, configuration or log are there")
	}
}

// TestPostinst: an upgrade of the package is one of the running program. Where that cannot be, the
// service is started anew, unless the new program refuses the configuration, and what does not run
// stays so.
func TestPostinst(t *testing.T) {
	ci.Root(t)
	own := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS} // with mounts of its own
	dir := t.TempDir()
	for name, text := range map[string]string{
		"systemd-sysusers": "",
		"systemctl":        `echo "systemctl $*"; [ "$1" != is-active ] || exit $INACTIVE`,
		"lwango":           `echo "lwango $*"; case "$REFUSES" in *"$3"*) exit 1; esac`,
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+text+"\n"), 0o755))
	}
	const active, upgrade, check = "systemctl is-active --quiet lwango.service\n",
		"lwango -c /etc/lwango/lwango.conf -upgrade\n", "lwango -c /etc/lwango/lwango.conf -t\n"
	for _, test := range []struct{ before, inactive, refuses, want string }{
		{"", "0", "", "systemctl enable lwango.service\nsystemctl start lwango.service\n"},
		{"1.0.0", "3", "", active},
		{"1.0.0", "0", "", active + upgrade},
		{"1.0.0", "0", "-upgrade", active + upgrade + check + "systemctl restart lwango.service\n"},
		{"1.0.0", "0", "-upgrade -t", active + upgrade + check},
	} {
		cmd := exec.Command("sh", "-euc", `mount -t tmpfs none /run; mount -t tmpfs none /var/log
mkdir -p /run/systemd/system /var/log/lwango; exec ./postinst configure "$0"`, test.before)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "DPKG_ROOT=",
			"INACTIVE="+test.inactive, "REFUSES="+test.refuses)
		cmd.SysProcAttr = own
		if got, want := run(t, cmd), "systemctl daemon-reload\n"+test.want; got != want {
			t.Errorf("after %q: got\n%swant\n%s", test.before, got, want)
		}
	}
}

// build runs the script of the repository in dir, and returns the path of the package.
func build(t *testing.T, dir, version string) string {
	t.Helper()
	cmd := exec.Command(filepath.Join(dir, "contrib/deb/build"), version, t.TempDir())
	// A copy of the sources has no commit: neither has a package of it.
	cmd.Env = append(os.Environ(), "SOURCE_DATE_EPOCH=1700000000", "GIT_DIR=/nowhere")
	return strings.TrimSpace(run(t, cmd))
}

// copied is a copy of the sources in another folder.
func copied(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	cmd := exec.Command("sh", "-c",
		`git ls-files -z -co --exclude-standard | xargs -0 cp --parents -t "$0"`, dir)
	cmd.Dir = root
	run(t, cmd)
	return dir
}

// inside is the program in the folder, as its own user, without anything else of the machine.
func inside(t *testing.T, dir string, args ...string) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("/usr/bin/lwango", args...)
	cmd.Dir = "/"
	cmd.Env = []string{}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: dir, Credential: user(t, dir)}
	return cmd
}

// user is the one that the package has made in the folder.
func user(t *testing.T, dir string) *syscall.Credential {
	t.Helper()
	passwd, err := os.ReadFile(filepath.Join(dir, "etc/passwd"))
	must.Do(t, err)
	m := regexp.MustCompile(`(?m)^lwango:[^:]*:(\d+):(\d+):`).FindStringSubmatch(string(passwd))
	if m == nil {
		t.Fatalf("no user in:\n%s", passwd)
	}
	return &syscall.Credential{Uid: number(m[1]), Gid: number(m[2])}
}

// visit starts the server of the package by its configuration, at another address, and asks for a
// page.
func visit(t *testing.T, dir, version string) {
	t.Helper()
	out, err := inside(t, dir, "-v").CombinedOutput()
	if err != nil || !strings.HasPrefix(string(out), "lwango "+version+" ") {
		t.Errorf("-v: %v, %s", err, out)
	}
	cmd := inside(t, dir, "-c", "/etc/lwango/lwango.conf", "-l", "127.0.0.1:0")
	stderr, err := cmd.StderrPipe()
	must.Do(t, err)
	must.Do(t, cmd.Start())
	defer func() {
		must.Do(t, cmd.Process.Signal(syscall.SIGTERM))
		_, _ = io.Copy(io.Discard, stderr)
		if err := cmd.Wait(); err != nil {
			t.Error(err)
		}
	}()
	listening := regexp.MustCompile(`msg=listening address=(\S+)`)
	lines := bufio.NewScanner(stderr)
	var said []string
	for lines.Scan() {
		said = append(said, lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			client := http.Client{Timeout: wait.Patience}
			resp, err := client.Get("http://" + m[1] + "/")
			must.Do(t, err)
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != 200 || string(body) != "from the package" {
				t.Errorf("%s, %v: %q", resp.Status, err, body)
			}
			client.CloseIdleConnections()
			return
		}
	}
	t.Fatalf("it does not listen:\n%s", strings.Join(said, "\n"))
}

func number(s string) (n uint32) {
	for _, c := range s {
		n = n*10 + uint32(c-'0')
	}
	return n
}

func sum(t *testing.T, path string) [sha256.Size]byte {
	t.Helper()
	text, err := os.ReadFile(path)
	must.Do(t, err)
	return sha256.Sum256(text)
}

func run(t *testing.T, cmd *exec.Cmd) string {
	t.Helper()
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, out, &stderr)
	}
	return string(out)
}
