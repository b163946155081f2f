package fastcgi_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// startMariaDB starts a MariaDB with an empty database called wordpress, for any user, until the
// test ends. It returns the path of its socket.
func startMariaDB(t *testing.T, program string) (socket string) {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "db"))(t) // a socket's path has to be short, t.TempDir is not
	t.Cleanup(func() { os.RemoveAll(dir) })
	write(t, dir, map[string]string{"data/x": "", "init.sql": "CREATE DATABASE wordpress;\n"})
	must.Do(t, os.Remove(dir+"/data/x"))
	socket = dir + "/s"
	// Without the tables of users every user may do all, and nothing has to be installed first.
	args := []string{"--no-defaults", "--datadir=" + dir + "/data", "--socket=" + socket,
		"--tmpdir=" + dir, "--pid-file=" + dir + "/pid", "--skip-networking", "--skip-grant-tables",
		"--init-file=" + dir + "/init.sql", "--innodb-flush-log-at-trx-commit=0",
		"--innodb-buffer-pool-size=32M", "--innodb-log-file-size=8M"}
	if os.Getuid() == 0 {
		args = append(args, "--user=root")
	}
	var out bytes.Buffer
	cmd := exec.Command(program, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill() // nothing of it is needed any more
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("MariaDB: %.5000s", out.String())
		}
	})
	wait.Until(t, "MariaDB is ready", func() bool {
		c, err := net.Dial("unix", socket)
		if err != nil {
			return false
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(wait.Patience))
		_, err = io.ReadFull(c, make([]byte, 1)) // it speaks first
		return err == nil
	})
	return socket
}

// TestWordPress: Debian's package is installed, an author logs in, chooses permalinks, uploads a
// picture and a script, and opens the editor. The program runs in its place; its configuration and
// wp-content are those of the test.
func TestWordPress(t *testing.T) {
	ci.Only(t, "runs WordPress and MariaDB")
	const src, mariadbd = "/usr/share/wordpress", "/usr/sbin/mariadbd"
	for _, file := range []string{src + "/wp-login.php", mariadbd} {
		if _, err := os.Stat(file); err != nil { // .ci/run does not install them: a database is large
			t.Skipf("no %s: apt-get install --no-install-recommends wordpress mariadb-server", file)
		}
	}
	findFPM(t)
	dir := t.TempDir()
	content := dir + "/wp-content"
	write(t, dir, map[string]string{
		// wp-load.php looks for it in ABSPATH, where all else is a link
		"abspath/wp-config.php": fmt.Sprintf(`<?php
define('DB_NAME', 'wordpress'); define('DB_USER', 'x'); define('DB_PASSWORD', '');
define('DB_HOST', 'localhost:%s'); define('DB_CHARSET', 'utf8mb4'); define('DB_COLLATE', '');
define('WP_CONTENT_DIR', '%s'); define('WP_DEFAULT_THEME', 'plain');
define('WP_HTTP_BLOCK_EXTERNAL', true); define('DISABLE_WP_CRON', true);
define('ALLOW_UNFILTERED_UPLOADS', true);
$table_prefix = 'wp_';
require_once ABSPATH . 'wp-settings.php';`, startMariaDB(t, mariadbd), content),
		"wp-content/index.php": "<?php // Silence is golden.",
		"wp-content/themes/plain/style.css": "/* Theme Name: plain */\n" +
			strings.Repeat("p {}\n", 999),
		"wp-content/themes/plain/index.php": `<!doctype html><title><?php wp_title() ?></title>
<?php wp_head(); while (have_posts()) { the_post(); echo '<h1><a href="', get_permalink(), '">';
the_title(); echo '</a></h1>'; the_content(); } wp_footer();`,
		"wp-content/plugins/p/ajax.php": `<?php echo "ran $_SERVER[SCRIPT_NAME]";`,
		"wp-content/debug.log":          "a secret",
		"wp-content/dump.sql.gz":        "a secret",
		"wp-content/uploads/.htaccess":  "a secret",
		"wp-content/uploads/x.php.jpg":  "<?php a secret",
	})
	names, _ := filepath.Glob(src + "/*")
	for _, name := range names {
		if base := filepath.Base(name); base != "wp-config.php" {
			must.Do(t, os.Symlink(name, dir+"/abspath/"+base))
		}
	}
	v := installed(t, "WordPress of Debian", "wordpress", src+"/wp-login.php", dir,
		"define('ABSPATH', '"+dir+"/abspath/');", "/var/lib/wordpress/wp-content", content)

	v.shows(v.get("/"), "WordPress &rsaquo; Installation")
	const password = "a long pass word"
	v.shows(v.post("/wp-admin/install.php?step=2", url.Values{"weblog_title": {"Test Blog"},
		"user_name": {"ann"}, "admin_password": {password}, "admin_password2": {password},
		"pw_weak": {"1"}, "admin_email": {"ann@test.example"}, "language": {""}}), "Success!")

	v.shows(v.get("/wp-login.php"), "user_login")
	for _, pass := range []string{"wrong", password} {
		g := v.post("/wp-login.php", url.Values{"log": {"ann"}, "pwd": {pass}, "testcookie": {"1"},
			"redirect_to": {v.base + "/wp-admin/"}})
		if in := strings.Contains(g.body, `id="dashboard-widgets"`); in != (pass == password) {
			t.Fatalf("logged in with %q: %v; %d %.3000s", pass, in, g.status, g.body)
		}
	}

	page := v.get("/wp-admin/options-permalink.php")
	v.shows(page, `value="/archives/%post_id%"`) // and not "/index.php/archives/..."
	v.shows(v.post("/wp-admin/options-permalink.php", url.Values{
		"_wpnonce": {hidden(page.body, "_wpnonce")}, "selection": {"custom"},
		"permalink_structure": {"/%year%/%postname%/"}, "category_base": {""}, "tag_base": {""},
	}), "Permalink structure updated")
	guest := visit(t, v.base)
	post := fmt.Sprint("/", time.Now().UTC().Year(), "/hello-world/")
	v.shows(guest.get("/"), `href="`+v.base+post+`"`)
	v.shows(guest.get(post), "Welcome to WordPress")
	v.shows(guest.get("/?s=welcome"), "Welcome to WordPress")
	v.shows(guest.get("/wp-json/"), `"name":"Test Blog"`)
	if g := guest.get("/no/such/page"); g.status != 404 || !strings.Contains(g.body, "<title>") {
		t.Errorf("no such page: %d %.300s", g.status, g.body)
	}
	v.shows(guest.get("/wp-content/plugins/p/ajax.php"), "ran /wp-content/plugins/p/ajax.php")

	token := url.Values{"_wpnonce": {hidden(v.get("/wp-admin/media-new.php").body, "_wpnonce")},
		"html-upload": {"Upload"}, "post_id": {"0"}}
	v.upload("/wp-admin/media-new.php", "async-upload", "One.png", png, token)
	v.upload("/wp-admin/media-new.php", "async-upload", "evil.php", calls+" // a secret", token)
	var media []struct {
		URL string `json:"source_url"`
	}
	g := guest.get("/wp-json/wp/v2/media")
	if err := json.Unmarshal([]byte(g.body), &media); err != nil || len(media) != 2 {
		t.Fatalf("uploads: %v, %.1000s", err, g.body)
	}
	evil, picture := strings.TrimPrefix(media[0].URL, v.base), strings.TrimPrefix(media[1].URL, v.base)
	if g := guest.get(picture); g.status != 200 || g.body != png ||
		g.header.Get("Content-Type") != "image/png" {
		t.Errorf("%s: %d %v %.300q", picture, g.status, g.header, g.body)
	}
	if _, err := os.Stat(dir + evil); err != nil || !strings.HasSuffix(evil, "evil.php") {
		t.Errorf("the uploaded script: %s, %v", evil, err)
	}

	v.denies(evil, evil+"/a.css", evil+"/", "/wp-content//uploads/../"+
		strings.TrimPrefix(evil, "/wp-content/"), "/wp-config.php", "/wp-config-sample.php",
		"/wp-includes/version.php", "/wp-includes/class-wp.php", "/wp-admin/includes/file.php",
		"/xmlrpc.php", "/wp-content/", "/wp-content/index.php", "/wp-content/debug.log",
		"/wp-content/dump.sql.gz", "/wp-content/uploads/.htaccess", "/wp-content/uploads/x.php.jpg",
		"/wp-content/uploads/", "/wp-content/../wp-config.php", "/.htaccess",
		"/wp-content/themes/plain/style.css/x.php")

	for path, kind := range map[string]string{
		"/wp-includes/js/jquery/jquery.min.js":    "text/javascript",
		"/wp-admin/css/common.min.css?ver=1":      "text/css",
		"/wp-content/themes/plain/style.css":      "text/css",
		"/wp-includes/js/dist/components.min.js":  "text/javascript",
		"/wp-includes/css/dist/editor/style.css":  "text/css",
		"/wp-includes/images/w-logo-blue.png":     "image/png",
		"/wp-includes/fonts/dashicons.woff2":      "font/woff2",
		"/wp-admin/images/wordpress-logo.svg":     "image/svg+xml",
		"/wp-includes/js/tinymce/tinymce.min.js":  "text/javascript",
		"/wp-includes/js/thickbox/thickbox.js?v1": "text/javascript",
		"/wp-includes/js/underscore.min.js":       "text/javascript",
	} {
		if _, err := os.Stat(src + strings.Split(path, "?")[0]); err != nil &&
			!strings.HasPrefix(path, "/wp-content/") {
			continue // versions differ
		}
		g := fetch(t, "GET", v.base+path, []string{"Accept-Encoding", "gzip"}, "")
		h := g.header
		packed := strings.HasPrefix(kind, "text/") || strings.Contains(kind, "xml")
		if g.status != 200 || !strings.HasPrefix(h.Get("Content-Type"), kind) ||
			h.Get("Cache-Control") != "max-age=86400" || h.Get("ETag") == "" ||
			packed && len(g.body) > 1024 && h.Get("Content-Encoding") != "gzip" {
			t.Errorf("%s: %d %v", path, g.status, h)
		}
		fields := []string{"Accept-Encoding", "gzip", "If-None-Match", h.Get("ETag")}
		if g := fetch(t, "GET", v.base+path, fields, ""); g.status != 304 || g.body != "" {
			t.Errorf("%s, unchanged: %d %v", path, g.status, g.header)
		}
	}
	page = fetch(t, "GET", v.base+post, []string{"Accept-Encoding", "gzip"}, "")
	if page.header.Get("Content-Encoding") != "gzip" {
		t.Errorf("a page: %v", page.header)
	}

	t.Run("editor", func(t *testing.T) { testEditor(t, v) })
}

// testEditor opens the editor in a browser. That test is a process of its own, so that the tests of
// this package do not import a browser: go mod tidy of each program that uses lwango reads them,
// and downloads what they import.
func testEditor(t *testing.T, v *visitor) {
	admin := must.Get(url.Parse(v.base + "/wp-admin/"))(t)
	cookies := must.Get(json.Marshal(v.http.Jar.Cookies(admin)))(t)
	cmd := exec.Command("go", "test", "-count=1", "-v",
		"github.com/lwango/lwango/internal/test/editor")
	cmd.Env = append(os.Environ(), "LWANGO_EDITOR="+v.base, "LWANGO_EDITOR_COOKIES="+string(cookies))
	out, err := cmd.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Error(err)
	} else if strings.Contains(string(out), "--- SKIP") {
		t.Skip("the editor's test was left out")
	}
}
