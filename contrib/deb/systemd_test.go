package deb

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/machine"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestUnderSystemd: systemd itself runs the package's units, from installation to removal.
func TestUnderSystemd(t *testing.T) {
	ci.Without(t, race.Enabled, "the program of the package is the same one with the race detector")
	m := machine.Start(t)
	for _, version := range []string{"1.0.0", "1.0.1"} {
		text, err := os.ReadFile(build(t, root, version))
		must.Do(t, err)
		m.Write("/tmp/"+version+".deb", string(text), 0o644)
	}
	install := func(version string) {
		t.Helper()
		m.Run("dpkg -i /tmp/" + version + ".deb")
	}
	property := func(name string) string {
		t.Helper()
		return strings.TrimSpace(m.Run("systemctl show --value -p " + name + " lwango"))
	}
	until := func(script string) {
		t.Helper()
		wait.Until(t, script, func() bool { _, err := m.Try(script); return err == nil })
	}
	serves := func(want string) {
		t.Helper()
		if got := m.Run("curl -s --retry-connrefused --retry 60 http://127.0.0.1/"); got != want {
			t.Fatalf("it serves %q, not %q", got, want)
		}
	}
	install("1.0.0")
	m.Write("/var/www/html/index.html", "one", 0o644)
	m.Run("systemctl is-active lwango && systemctl is-enabled lwango")
	serves("one")
	pid := property("MainPID")
	status := m.Run("cat /proc/" + pid + "/status")
	for _, want := range []string{`Seccomp:\t2`, `NoNewPrivs:\t1`, `CapEff:\t0000000000000400`} {
		if !regexp.MustCompile("(?m)^" + want + "$").MatchString(status) {
			t.Errorf("no %s in\n%s", want, status)
		}
	}
	// Without CAP_SYS_RESOURCE, systemd comes as close as it can.
	limits := m.Run("grep 'open files' /proc/" + pid + "/limits")
	if !strings.Contains(limits, " 65536 ") {
		if _, err := m.Try("prlimit --nofile=65536 true"); err == nil {
			t.Error(limits)
		}
	}

	// A wrong file: reload fails, and nothing changes.
	conf := "/etc/lwango/lwango.conf"
	right, err := os.ReadFile(m.Path(conf))
	must.Do(t, err)
	m.Write(conf, string(right)+"\n[nonsense]\n", 0o644)
	if said, err := m.Try("systemctl reload lwango"); err == nil {
		t.Errorf("a wrong file is taken: %s", said)
	}
	m.Run("systemctl is-active lwango")
	serves("one")
	m.Write("/var/www/two/index.html", "two", 0o644)
	m.Write(conf, strings.ReplaceAll(string(right), "/var/www/html", "/var/www/two"), 0o644)
	m.Run("systemctl reload lwango")
	until(`test "$(curl -s http://127.0.0.1/)" = two`) // systemctl may return when the signal is sent
	if now := property("MainPID"); now != pid {
		t.Errorf("process %s after a reload, before it %s", now, pid)
	}

	// Logs are turned.
	if _, err := m.Try("command -v logrotate"); err == nil {
		m.Run("logrotate -f /etc/logrotate.d/lwango && test -s /var/log/lwango/access.log.1")
		m.Run("curl -s 'http://127.0.0.1/?turned'")
		until("grep -q '?turned' /var/log/lwango/access.log")
	} else {
		t.Error("logrotate is not installed")
	}

	// A new program without a restart.
	m.Write(conf, string(right), 0o644)
	m.Run("systemctl reload lwango")
	since := property("ActiveEnterTimestampMonotonic")
	m.Run("lwango -c " + conf + " -upgrade")
	serves("one")
	until("! test -e /proc/" + pid)
	m.Run("systemctl is-active lwango")
	if now := property("MainPID"); now == pid || property("NRestarts") != "0" {
		t.Errorf("process %s after an upgrade, before it %s", now, pid)
	}
	serves("one")
	m.Run("systemctl reload lwango && systemctl is-active lwango")

	// Another package replaces what runs, without a restart; a stopped one stays so.
	install("1.0.1")
	said := m.Run("/proc/" + property("MainPID") + "/exe -v")
	if !strings.HasPrefix(said, "lwango v1.0.1 ") {
		t.Errorf("after the upgrade: %s", said)
	}
	if now := property("ActiveEnterTimestampMonotonic"); now != since || property("NRestarts") != "0" {
		t.Errorf("active since %s, before the upgrade since %s", now, since)
	}
	serves("one")
	m.Run("systemctl stop lwango")
	if result := property("Result") + " " + property("ActiveState"); result != "success inactive" {
		t.Errorf("stopped: %s\n%s", result,
			m.Run("systemctl status -l lwango; journalctl -o short-precise -u lwango | tail -50; true"))
	}
	install("1.0.0")
	if state := property("ActiveState"); state != "inactive" {
		t.Errorf("the package has started what was stopped: %s", state)
	}

	// A new program that refuses the configuration does not take the old one's place, and ends it
	// neither.
	m.Run("systemctl start lwango")
	pid = property("MainPID")
	m.Write(conf, string(right)+"\n[nonsense]\n", 0o644)
	install("1.0.1")
	serves("one")
	if now := property("MainPID"); now != pid || property("ActiveState") != "active" {
		t.Errorf("process %s after a program that refuses the configuration, before it %s", now, pid)
	}
	m.Write(conf, string(right), 0o644)
	m.Run("systemctl stop lwango")

	// Socket activation: the first client starts it.
	m.Write(conf, strings.ReplaceAll(string(right), `"*:80"`, `"systemd:http"`), 0o644)
	m.Run("systemctl start lwango.socket")
	if state := property("ActiveState"); state != "inactive" {
		t.Errorf("with the socket alone: %s", state)
	}
	serves("one")
	until("test $(systemctl show --value -p ActiveState lwango) = active")
	m.Run("systemctl restart lwango")
	serves("one")
	m.Run("systemctl stop lwango.socket lwango")

	// A program that dies is started anew.
	m.Write(conf, string(right), 0o644)
	m.Run("systemctl start lwango")
	pid = property("MainPID")
	m.Run("kill -KILL " + pid)
	until("test $(systemctl show --value -p NRestarts lwango) = 1")
	serves("one")

	// One that hangs is, too.
	const extra = "/etc/systemd/system/lwango.service.d/test.conf"
	m.Write(extra, "[Service]\nWatchdogSec=3s\nTimeoutAbortSec=1s\n", 0o644)
	m.Run("systemctl daemon-reload && systemctl restart lwango")
	m.Run("kill -STOP " + property("MainPID"))
	until("test $(systemctl show --value -p NRestarts lwango) -gt 0")
	serves("one")

	// A key that root alone can read, as the unit's comment says, and the access log in the journal.
	m.Run(`openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes \
		-subj /CN=test.example -addext subjectAltName=DNS:test.example \
		-keyout /etc/lwango/test.key -out /etc/lwango/test.pem`)
	m.Write(extra, `[Service]
LoadCredential=test.key:/etc/lwango/test.key
ExecReload=
ExecReload=/bin/kill -HUP $MAINPID
`, 0o644)
	m.Write(conf, strings.Replace(string(right), "/var/log/lwango/access.log", "journald:", 1)+`
[[listener]]
address = "*:443"
tls = { cert = "/etc/lwango/test.pem", key = "${CREDENTIALS_DIRECTORY}/test.key" }
`, 0o644)
	m.Run("systemctl daemon-reload && systemctl restart lwango && systemctl reload lwango")
	if got := m.Run("curl -s --cacert /etc/lwango/test.pem --connect-to ::127.0.0.1: " +
		"https://test.example/"); got != "one" {
		t.Errorf("with a credential it serves %q", got)
	}
	until("journalctl -u lwango | grep 'GET / HTTP/2.0. 200'")
	// The package's upgrade has no such credential, and is one of the running program nevertheless.
	pid = property("MainPID")
	since = property("ActiveEnterTimestampMonotonic")
	install("1.0.0")
	until("! test -e /proc/" + pid)
	if now := property("ActiveEnterTimestampMonotonic"); now != since || property("NRestarts") != "0" {
		t.Errorf("active since %s, before the upgrade since %s", now, since)
	}
	serves("one")

	m.Run("dpkg -r lwango")
	if state := property("ActiveState"); state != "inactive" {
		t.Errorf("after removal: %s", state)
	}
	m.Run("dpkg -P lwango")
}
