package fastcgi_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/machine"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

// archive stands before apt-get in a machine, which has no network: a file is installed, and so is
// what is there already. Of other packages, it is proved that the archive has them.
const archive = `#!/bin/sh
case "$2" in */*) exec /usr/bin/apt-get -y "$@";; esac
/usr/bin/apt-get -y --no-download --no-upgrade "$@" && exit
if ! ls /var/lib/apt/lists/*Packages* >/dev/null 2>&1; then
	echo "the archive is not known here: not checked: $*"
	exit
fi
echo "only simulated: $*"
exec /usr/bin/apt-get -y -s "$@"
`

// followInMachine does all that the page says, word by word, as root of a machine with systemd.
// Where MariaDB and Debian's WordPress are not installed, scripts stand for them.
func followInMachine(t *testing.T) {
	ci.Without(t, race.Enabled, "the program of the package is the same one with the race detector")
	sources := must.Get(filepath.Abs(".."))(t)
	out := must.Get(exec.Command("go", "env", "GOROOT", "GOMODCACHE", "GOCACHE").Output())(t)
	env := strings.Fields(string(out))
	binds := []string{sources + ":/root/lwango"}
	for _, dir := range env {
		must.Do(t, os.MkdirAll(dir, 0o755))
		binds = append(binds, dir+":"+dir)
	}
	m := machine.Start(t, binds...)
	m.Run("mount -o remount,bind,ro /root/lwango")
	shell := func(script string) string {
		t.Helper()
		return m.Run(fmt.Sprintf("export PATH=%s/bin:$PATH GOROOT=%[1]s GOMODCACHE=%s GOCACHE=%s\n"+
			"export GOPROXY=off; cd /root/lwango\n", env[0], env[1], env[2]) + script)
	}
	there := func(name string) bool {
		_, err := os.Stat(m.Path(name))
		return err == nil
	}
	m.Write("/usr/local/sbin/apt-get", archive, 0o755)
	complete := there("/usr/share/wordpress/wp-login.php") && there("/usr/sbin/mariadbd")

	packages := regexp.MustCompile("(?m)^apt-get (install .*mariadb-server.*)")
	said, ran := "", map[string]int{}
	for _, b := range pageBlocks(t) {
		ran[b.language]++
		switch {
		case b.file != "":
			m.Write(b.file, b.text, 0o644)
		case b.language == "console":
			script := regexp.MustCompile("(?m)^# ").ReplaceAllString(b.text, "")
			said = shell(script)
			t.Logf("%s\n%.3000s", b.text, said)
			if line := packages.FindStringSubmatch(script); line != nil {
				noApache(t, m, line[1])
				afterPackages(t, m, complete)
			}
		case b.language == "sh":
			if strings.HasPrefix(b.text, "ask()") && complete {
				fillIn(t, shell)
			}
			said = shell(b.text)
		case b.language == "text":
			if said != b.text {
				t.Errorf("the page's commands print\n%s, not\n%s", said, b.text)
			}
		default:
			t.Errorf("a block of %q without a path of a file: the test cannot follow it", b.language)
		}
	}
	t.Logf("blocks of the page: %v", ran)

	// What the page has promised.
	const get = "curl -sS --cacert /etc/lwango/blog.pem https://blog.example.org"
	for path, want := range map[string]string{"/": "Hello world!", "/hello-world/": "Hello world!"} {
		if !complete {
			want = "ran /index.php"
		}
		if body := shell(get + path); !strings.Contains(body, want) {
			t.Errorf("%s: no %q in %.2000s", path, want, body)
		}
	}
	if said := shell("lwango -v"); !strings.HasPrefix(said, "lwango v1.0.1 ") {
		t.Errorf("the program is %s", said)
	}
	pid := strings.TrimSpace(shell("systemctl show --value -p MainPID lwango"))
	shell("grep -w \"^Groups:.*$(getent group www-data | cut -d : -f 3)\" /proc/" + pid + "/status")
	m.Write("/usr/share/wordpress/limits.php",
		`<?php echo ini_get("upload_max_filesize"), " ", ini_get("post_max_size");`, 0o644)
	if is := shell(get + "/limits.php"); is != "30M 32M" {
		t.Errorf("PHP's limits are %s", is)
	}
	rules := shell("nft list ruleset")
	if !strings.Contains(rules, "tcp dport { 22, 80, 443 } accept") {
		t.Errorf("rules of the firewall: %s", rules)
	}
	for line := range strings.Lines(shell("cat /etc/sysctl.d/60-lwango.conf")) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), " = ")
		if is := strings.TrimSpace(shell("sysctl -n " + key)); is != value {
			t.Errorf("%s is %s, not %s", key, is, value)
		}
	}
	if !there("/var/log/lwango/access.log.1") || !there("/var/log/lwango/access.log") {
		t.Errorf("logs: %s", shell("ls -l /var/log/lwango"))
	}
	if mode := shell("stat -c '%U:%G %a' /etc/wordpress/config-*.php /etc/lwango/blog.key"); mode !=
		"root:www-data 640\nroot:lwango 640\n" {
		t.Errorf("secrets: %s", mode)
	}
}

// noApache: on a system that has the package lwango and nothing else, command brings no second web
// server, which would take the ports.
func noApache(t *testing.T, m *machine.Machine, command string) {
	t.Helper()
	if lists, _ := filepath.Glob(m.Path("/var/lib/apt/lists/*Packages*")); len(lists) == 0 {
		t.Log("the archive is not known here: what its packages bring is not checked")
		return
	}
	m.Run("sed -n '/^Package: lwango$/,/^$/p' /var/lib/dpkg/status | grep -v ^Depends: " +
		">/tmp/status")
	plan := m.Run("/usr/bin/apt-get -s -o Dir::State::status=/tmp/status " + command)
	if !strings.Contains(plan, "\nInst wordpress ") || !strings.Contains(plan, "\nInst php") {
		t.Errorf("%s: %s", command, plan)
	}
	others := regexp.MustCompile(`(?m)^Inst (lib)?(apache2|nginx|lighttpd)\S*`)
	if servers := others.FindAllString(plan, -1); servers != nil {
		t.Errorf("%s brings %q", command, servers)
	}
}

// afterPackages does what is left of apt-get's work: it starts the services of the packages, and
// makes what stands for those that are not there.
func afterPackages(t *testing.T, m *machine.Machine, complete bool) {
	t.Helper()
	version := strings.TrimPrefix(filepath.Base(findFPM(t)), "php-fpm")
	m.Run("systemctl start php" + version + "-fpm")
	if !complete {
		t.Log("WordPress or MariaDB is not installed: scripts stand for them")
		m.Write("/usr/local/bin/mariadb", "#!/bin/sh\n", 0o755)
		m.Write("/etc/wordpress/x", "", 0o644)
		m.Write("/usr/share/wordpress/index.php", calls, 0o644)
		m.Write("/usr/share/wordpress/wp-config.php", secret, 0o644)
		m.Write("/var/lib/wordpress/wp-content/uploads/x.php", secret, 0o644)
		return
	}
	m.Run("systemctl start mariadb")
	m.Write("/var/lib/wordpress/wp-content/uploads/x.php", secret, 0o644)
	themes := "/var/lib/wordpress/wp-content/themes/"
	if found, _ := filepath.Glob(m.Path(themes + "*/style.css")); len(found) == 0 {
		// In the place of the one that WordPress chooses, which is a package of its own.
		m.Write(themes+"twentytwentythree/style.css", "/* Theme Name: plain */", 0o644)
		m.Write(themes+"twentytwentythree/index.php",
			`<?php while (have_posts()) { the_post(); the_title(); }`, 0o644)
	}
}

// fillIn installs WordPress and chooses permalinks, as the page tells the reader to do by browser.
func fillIn(t *testing.T, shell func(string) string) {
	t.Helper()
	const curl = "curl -s --cacert /etc/lwango/blog.pem -b /tmp/jar "
	post := func(path string, form url.Values) string {
		return shell(curl + "-c /tmp/jar -d '" + form.Encode() + "' 'https://blog.example.org" + path +
			"'")
	}
	const password = "a long pass word"
	if page := post("/wp-admin/install.php?step=2", url.Values{"weblog_title": {"Test Blog"},
		"user_name": {"ann"}, "admin_password": {password}, "admin_password2": {password},
		"pw_weak": {"1"}, "admin_email": {"ann@test.example"}, "language": {""},
	}); !strings.Contains(page, "Success!") {
		t.Fatalf("install: %.3000s", page)
	}
	shell(curl + "-c /tmp/jar -o /dev/null https://blog.example.org/wp-login.php")
	post("/wp-login.php", url.Values{"log": {"ann"}, "pwd": {password}, "testcookie": {"1"}})
	const options = "/wp-admin/options-permalink.php"
	page := shell(curl + "https://blog.example.org" + options)
	post(options, url.Values{"_wpnonce": {hidden(page, "_wpnonce")}, "selection": {"/%postname%/"},
		"permalink_structure": {"/%postname%/"}, "category_base": {""}, "tag_base": {""}})
}
