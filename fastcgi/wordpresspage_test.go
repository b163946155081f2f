package fastcgi_test

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/wait"
)

// pageBlocks returns the blocks of docs/wordpress.md, language and text in turn. Those of "console"
// are left out: they install packages, start services, and change the machine's firewall and limits.
func pageBlocks(t *testing.T) (all [][2]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/wordpress.md")
	if err != nil {
		t.Fatal(err)
	}
	fences := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	for _, m := range fences.FindAllStringSubmatch(string(text), -1) {
		if m[1] != "console" {
			all = append(all, [2]string{m[1], m[2]})
		}
	}
	return all
}

// freePort returns a port that nothing listens on.
func freePort(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// TestWordPressPage follows docs/wordpress.md with a tree of WordPress's shape, and with Debian's
// package where that and a database are installed.
func TestWordPressPage(t *testing.T) {
	findFPM(t)
	for _, tool := range []string{"openssl", "curl", "go"} {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("LWANGO_CI") == "1" {
				t.Fatal(err)
			}
			t.Skip(err)
		}
	}
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/lwango", "../cmd/lwango")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Run("shape", func(t *testing.T) { followPage(t, bin, "") })
	t.Run("Debian", func(t *testing.T) {
		const mariadbd = "/usr/sbin/mariadbd"
		for _, file := range []string{"/usr/share/wordpress/wp-login.php", mariadbd} {
			if _, err := os.Stat(file); err != nil { // .ci/run does not install them, see TestWordPress
				t.Skip(err)
			}
		}
		followPage(t, bin, startMariaDB(t, mariadbd))
	})
}

// followPage runs the page's blocks in their order. database is the socket of a MariaDB, or "" for
// scripts that stand for WordPress.
func followPage(t *testing.T, bin, database string) {
	root := t.TempDir()
	write(t, root, map[string]string{
		"log/x": "", "conf/conf.d/x": "", "www/index.html": "none",
		"content/uploads/x.php": secret, "content/index.php": "<?php",
		"content/themes/plain/style.css": "/* Theme Name: plain */",
		"content/themes/plain/index.php": `<?php while (have_posts()) { the_post(); the_title(); }`,
	})
	f := newFPM(t, "unix")
	f.ini = database != ""
	f.start()
	plain, secure := freePort(t), freePort(t)
	// What the page says, and what stands in its place here.
	places := strings.NewReplacer(
		"/etc/lwango", root+"/conf",
		"/usr/share/wordpress", root+"/wordpress",
		"/var/lib/wordpress/wp-content", root+"/content",
		"/var/log/lwango", root+"/log",
		"/run/lwango", root,
		"/var/www/html", root+"/www",
		"unix:/run/php/php-fpm.sock", f.Address,
		"/run/mysqld/mysqld.sock", database,
		`"*:80"`, `"127.0.0.1:`+plain+`"`,
		`"*:443"`, `"127.0.0.1:`+secure+`"`)
	deb, err := os.ReadFile("../contrib/deb/lwango.conf")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{
		"conf/lwango.conf": places.Replace(string(deb)),
		// The name and its ports lead to the server of the test.
		".curlrc": fmt.Sprintf("connect-to = \"blog.example.org:80:127.0.0.1:%s\"\n"+
			"connect-to = \"blog.example.org:443:127.0.0.1:%s\"\nnoproxy = \"*\"\n", plain, secure),
	})
	if database == "" {
		write(t, root, map[string]string{"wordpress/index.php": calls,
			"wordpress/wp-config.php": secret})
	}
	shell := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-euc", script)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+root,
			"CURL_HOME="+root)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v: %s", script, err, out)
		}
		return string(out)
	}
	said, ran := "", map[string]int{}
	for _, b := range pageBlocks(t) {
		text := places.Replace(b[1])
		ran[b[0]]++
		switch b[0] {
		case "php":
			if database != "" {
				linkWordPress(t, root, text)
			}
		case "toml":
			write(t, root, map[string]string{"conf/conf.d/blog.conf": text})
		case "sh":
			if strings.HasPrefix(text, "ask()") {
				startLwango(t, bin, root, plain, secure)
				if database != "" {
					fillIn(t, shell, root)
				}
			}
			said = shell(text)
		case "text":
			if said != text {
				t.Errorf("the page's commands print\n%s, not\n%s", said, text)
			}
		default:
			t.Errorf("a block of %q: the test cannot follow it", b[0])
		}
	}
	if ran["sh"] != 3 || ran["toml"] != 1 || ran["php"] != 1 || ran["text"] != 1 {
		t.Errorf("blocks of the page: %v", ran)
	}

	const get = "curl -s --cacert conf/blog.pem "
	if head := shell(get + "-I http://blog.example.org/a?b"); !strings.Contains(strings.ToLower(head),
		"location: https://blog.example.org:"+secure+"/a?b\r\n") {
		t.Errorf("redirect from http: %s", head)
	}
	want := map[string]string{"/": "Hello world!", "/hello-world/": "Hello world!"}
	if database == "" {
		want = map[string]string{"/": "ran /index.php - ", "/hello-world/?x=1": "ran /index.php - x=1"}
	}
	for path, text := range want {
		if body := shell(get + "'https://blog.example.org" + path + "'"); !strings.Contains(body, text) {
			t.Errorf("%s: no %q in %.2000s", path, text, body)
		}
	}
	if body := shell(get + "https://blog.example.org/wp-content/uploads/x.php"); strings.Contains(
		body, "secret") {
		t.Errorf("a script among the uploads: %s", body)
	}
}

// linkWordPress makes a WordPress of links to Debian's, with a configuration of its own in the place
// of Debian's, which reads /etc/wordpress.
func linkWordPress(t *testing.T, root, config string) {
	t.Helper()
	write(t, root, map[string]string{"wordpress/wp-config.php": config + `
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true);
define('WP_DEFAULT_THEME', 'plain'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
if (!defined('ABSPATH')) define('ABSPATH', '` + root + `/wordpress/');
$table_prefix = 'wp_';
require_once ABSPATH . 'wp-settings.php';`})
	names, _ := filepath.Glob("/usr/share/wordpress/*")
	for _, name := range names {
		base := filepath.Base(name)
		if base == "wp-config.php" || base == "wp-content" {
			continue
		}
		// PHP resolves links: scripts at the top must find this ABSPATH, so they are copies.
		if strings.HasSuffix(base, ".php") {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			write(t, root, map[string]string{"wordpress/" + base: string(b)})
		} else if base == "wp-admin" {
			if out, err := exec.Command("cp", "-rL", name, root+"/wordpress/").CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
		} else if err := os.Symlink(name, root+"/wordpress/"+base); err != nil {
			t.Fatal(err)
		}
	}
}

// startLwango starts the program with the page's configuration, until the test ends.
func startLwango(t *testing.T, bin, root string, ports ...string) {
	t.Helper()
	var log logtext.Buffer
	cmd := exec.Command(bin+"/lwango", "-c", root+"/conf/lwango.conf")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("lwango ends with %v", err)
		}
		if t.Failed() {
			t.Logf("lwango: %.5000s", log.String())
		}
	})
	for _, port := range ports {
		wait.Until(t, "lwango listens", func() bool {
			c, err := net.Dial("tcp", "127.0.0.1:"+port)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
}

// fillIn installs WordPress and chooses permalinks, as the page tells the reader to do by browser.
func fillIn(t *testing.T, shell func(string) string, root string) {
	t.Helper()
	post := func(path string, form url.Values) string {
		return shell("curl -s --cacert conf/blog.pem -b jar -c jar -d '" + form.Encode() +
			"' 'https://blog.example.org" + path + "'")
	}
	const password = "a long pass word"
	if page := post("/wp-admin/install.php?step=2", url.Values{"weblog_title": {"Test Blog"},
		"user_name": {"ann"}, "admin_password": {password}, "admin_password2": {password},
		"pw_weak": {"1"}, "admin_email": {"ann@test.example"}, "language": {""},
	}); !strings.Contains(page, "Success!") {
		t.Fatalf("install: %.3000s", page)
	}
	shell("curl -s --cacert conf/blog.pem -c jar -o login https://blog.example.org/wp-login.php")
	post("/wp-login.php", url.Values{"log": {"ann"}, "pwd": {password}, "testcookie": {"1"}})
	const options = "/wp-admin/options-permalink.php"
	page := shell("curl -s --cacert conf/blog.pem -b jar https://blog.example.org" + options)
	post(options, url.Values{"_wpnonce": {hidden(page, "_wpnonce")}, "selection": {"/%postname%/"},
		"permalink_structure": {"/%postname%/"}, "category_base": {""}, "tag_base": {""}})
}
