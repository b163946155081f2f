package fastcgi_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/lwango/lwango/internal/test/browser"
	"github.com/lwango/lwango/internal/test/wait"
)

// startMariaDB starts a MariaDB with an empty database called wordpress, for any user, until the
// test ends. It returns the path of its socket.
func startMariaDB(t *testing.T, program string) (socket string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "db") // a socket's path has to be short, t.TempDir is not
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	write(t, dir, map[string]string{"data/x": "", "init.sql": "CREATE DATABASE wordpress;\n"})
	if err := os.Remove(dir + "/data/x"); err != nil {
		t.Fatal(err)
	}
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
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
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
			if err := os.Symlink(name, dir+"/abspath/"+base); err != nil {
				t.Fatal(err)
			}
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

// maxScripts is how much of the editor's scripts may go over the network when nothing is cached:
// 1.3 MB of 4.2. Each version of WordPress has more of them.
const maxScripts = 1.3 / 4.2

// testEditor opens the editor in a browser, and counts what that takes from the server.
func testEditor(t *testing.T, v *visitor) {
	ctx, cancel := chromedp.NewContext(browser.Context(t), chromedp.WithNewBrowserContext())
	defer cancel()
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(1200, 900)); err != nil {
		t.Fatal(err)
	}
	admin, err := url.Parse(v.base + "/wp-admin/")
	if err != nil {
		t.Fatal(err)
	}
	for _, cookie := range v.http.Jar.Cookies(admin) {
		if _, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{
			Name: cookie.Name, Value: cookie.Value, URL: admin.String()}); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		url, kind, coding string
		bytes, plain      int // over the network, with the head; of the body, decoded
	}
	var (
		mu      sync.Mutex
		open    = make(map[network.RequestID]bool)
		answers = make(map[network.RequestID]*answer)
		failed  []string
	)
	err = chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			open[e.RequestID] = true
		case *network.EventResponseReceived:
			a := &answer{url: e.Response.URL, kind: e.Response.MimeType}
			for name, value := range e.Response.Headers {
				if strings.EqualFold(name, "Content-Encoding") {
					a.coding = fmt.Sprint(value)
				}
			}
			if answers[e.RequestID] = a; e.Response.Status >= 400 {
				failed = append(failed, fmt.Sprint(e.Response.Status, " ", e.Response.URL))
			}
		case *network.EventDataReceived:
			if a := answers[e.RequestID]; a != nil {
				a.plain += int(e.DataLength)
			}
		case *network.EventLoadingFinished:
			delete(open, e.RequestID)
			if a := answers[e.RequestID]; a != nil {
				a.bytes = int(e.EncodedDataLength)
			}
		case *network.EventLoadingFailed:
			delete(open, e.RequestID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	limited, stop := context.WithTimeout(ctx, wait.Patience)
	defer stop()
	if err := chromedp.Do(limited, chromedp.Navigate(admin.String()+"post-new.php")); err != nil {
		t.Fatal(err)
	}
	const shown = `!!document.querySelector(".block-editor-writing-flow, [name=editor-canvas]")`
	if _, err := chromedp.Run(limited, chromedp.Poll[bool](shown)); err != nil {
		text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("no editor: %v; the page says %.1000s", err, text)
	}
	wait.Until(t, "all is loaded", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 0
	})

	mu.Lock()
	defer mu.Unlock()
	for _, what := range failed {
		if strings.Contains(what, v.base) {
			t.Error(what)
		}
	}
	var list []*answer
	var all, scripts answer
	for _, a := range answers {
		if !strings.HasPrefix(a.url, v.base) {
			continue
		}
		list = append(list, a)
		all.bytes, all.plain = all.bytes+a.bytes, all.plain+a.plain
		if strings.HasSuffix(a.kind, "/javascript") {
			scripts.bytes, scripts.plain = scripts.bytes+a.bytes, scripts.plain+a.plain
		}
		if a.coding == "" && a.plain > 2000 && !strings.HasPrefix(a.kind, "image/") {
			t.Errorf("%s: %d bytes of %s are not compressed", a.url, a.plain, a.kind)
		}
	}
	slices.SortFunc(list, func(a, b *answer) int { return b.bytes - a.bytes })
	for _, a := range list[:min(10, len(list))] {
		t.Logf("%7d of %7d %-5s %s %.120s", a.bytes, a.plain, a.coding, a.kind, a.url)
	}
	t.Logf("%d bytes of %d in %d answers; %d of %d are scripts", all.bytes, all.plain, len(list),
		scripts.bytes, scripts.plain)
	if scripts.plain < 1_000_000 || float64(scripts.bytes) > maxScripts*float64(scripts.plain) {
		t.Errorf("%d bytes of scripts for %d", scripts.bytes, scripts.plain)
	}
}
