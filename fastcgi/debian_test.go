package fastcgi_test

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/refuse"
)

// visitor is a browser with cookies.
type visitor struct {
	t    *testing.T
	base string
	http *http.Client
}

func visit(t *testing.T, base string) *visitor {
	jar, _ := cookiejar.New(nil)
	transport := &http.Transport{DisableKeepAlives: true}
	return &visitor{t, base, &http.Client{Jar: jar, Transport: transport}}
}

// get loads a page, and follows redirects.
func (v *visitor) get(path string) got {
	v.t.Helper()
	resp, err := v.http.Get(v.base + path)
	return v.read(resp, err)
}

// post sends a form.
func (v *visitor) post(path string, form url.Values) got {
	v.t.Helper()
	resp, err := v.http.PostForm(v.base+path, form)
	return v.read(resp, err)
}

// upload sends a file in a form.
func (v *visitor) upload(path, field, name, content string, form url.Values) got {
	v.t.Helper()
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for key := range form {
		w.WriteField(key, form.Get(key))
	}
	part, _ := w.CreateFormFile(field, name)
	io.WriteString(part, content)
	w.Close()
	resp, err := v.http.Post(v.base+path, w.FormDataContentType(), &b)
	return v.read(resp, err)
}

func (v *visitor) read(resp *http.Response, err error) got {
	v.t.Helper()
	if err != nil {
		v.t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{status: resp.StatusCode, reason: resp.Request.URL.RequestURI(), header: resp.Header,
		body: string(b), err: err}
}

// shows checks that a page is there and has these texts.
func (v *visitor) shows(g got, texts ...string) {
	v.t.Helper()
	for _, text := range texts {
		if g.status != 200 || g.err != nil || !strings.Contains(g.body, text) {
			v.t.Errorf("%s: no %q in %d %v %.2000s", g.reason, text, g.status, g.header, g.body)
		}
	}
}

// denies checks that these paths are 404.
func (v *visitor) denies(paths ...string) {
	v.t.Helper()
	for _, path := range paths {
		if g := v.get(path); g.status != 404 || strings.Contains(g.body, "<?php") {
			v.t.Errorf("%s: %d %.200s", path, g.status, g.body)
		}
	}
}

// hidden returns the value of a form's hidden field.
func hidden(page, name string) string {
	field := regexp.MustCompile(`name=["']` + name + `["'] value=["']([^"']*)["']`)
	m := field.FindStringSubmatch(page)
	if m == nil {
		return ""
	}
	return m[1]
}

// installed starts a PHP-FPM for a package of Debian, which serves by its recipe. dir is a folder
// for what the program writes; prepend is PHP that runs before its scripts. places are texts of the
// recipe, and what stands in the place of each.
func installed(t *testing.T, name, pkg, file, dir, prepend string, places ...string) *visitor {
	t.Helper()
	ci.Only(t, "runs a program of Debian")
	if _, err := os.Stat(file); err != nil {
		t.Fatalf("%s is not installed: apt-get install --no-install-recommends %s", name, pkg)
	}
	write(t, dir, map[string]string{"prepend.php": "<?php " + prepend, "sessions/x": ""})
	f := newFPM(t, "unix", "php_admin_value[auto_prepend_file] = "+dir+"/prepend.php",
		"php_admin_value[session.save_path] = "+dir+"/sessions")
	f.ini = true
	f.start()
	return visit(t, serveConfig(t, strings.NewReplacer(append(places,
		"unix:/run/php/php-fpm.sock", f.Address)...).Replace(recipe(t, name))))
}

// png is a picture.
const png = "\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00\x00\x01\x00\x00\x00\x01" +
	"\x08\x00\x00\x00\x00:~\x9bU\x00\x00\x00\nIDATx\x9cc`\x00\x00\x00\x02\x00\x01H\xaf\xa4q" +
	"\x00\x00\x00\x00IEND\xaeB`\x82"

// TestDokuWiki: a page is read, an editor logs in, saves a page and uploads a file. The program
// runs in its place; its configuration is a copy, and its data a folder of the test.
func TestDokuWiki(t *testing.T) {
	dir := t.TempDir()
	conf, _ := filepath.Glob("/etc/dokuwiki/*")
	for _, name := range conf {
		if b, err := os.ReadFile(name); err == nil {
			write(t, dir, map[string]string{"conf/" + filepath.Base(name): string(b)})
		}
	}
	write(t, dir, map[string]string{
		"conf/local.php": `<?php $conf['title'] = 'Test'; $conf['useacl'] = 1;
$conf['superuser'] = '@admin'; $conf['userewrite'] = 1; $conf['useslash'] = 1;
$conf['savedir'] = '` + dir + `/data'; $conf['updatecheck'] = 0; $conf['send404'] = 1;`,
		"conf/users.auth.php": fmt.Sprintf("ann:%x:Ann:ann@test.example:admin,user\n",
			md5.Sum([]byte("pass word"))),
		"conf/acl.auth.php":           "* @ALL 1\n* @user 8\n",
		"data/pages/start.txt":        "====== Hello ======\nthe first page, {{:pic.png}}\n",
		"data/pages/name/space/x.txt": "a deep page\n",
		"data/pages/secret.txt":       "a source of a page\n",
	})
	for _, name := range []string{"attic", "cache", "index", "locks", "log", "media", "media_attic",
		"media_meta", "meta", "tmp"} {
		write(t, dir, map[string]string{"data/" + name + "/_dummy": ""})
	}
	v := installed(t, "DokuWiki", "dokuwiki", "/usr/share/dokuwiki/doku.php", dir, fmt.Sprintf(
		`define('DOKU_MAIN_CONF', '%[1]s/conf/'); define('DOKU_CONF', '%[1]s/conf/');`, dir))

	v.shows(v.get("/"), "the first page", `/_media/pic.png`, `href="/start?do=login`)
	v.shows(v.get("/start"), "the first page")
	v.shows(v.get("/name/space/x"), "a deep page")
	v.shows(v.get("/name:space:x"), "a deep page")
	v.shows(v.get("/start?do=search&q=deep"), "Search")
	v.shows(v.get("/doku.php?id=start"), "the first page")
	v.shows(v.get("/feed.php"), "<rdf:RDF")
	for path, kind := range map[string]string{"/lib/exe/css.php?t=dokuwiki": "text/css",
		"/lib/exe/js.php?t=dokuwiki": "application/javascript",
		"/lib/images/smileys/README": "application/octet-stream"} {
		g := v.get(path)
		if g.status != 200 || !strings.HasPrefix(g.header.Get("Content-Type"), kind) {
			t.Errorf("%s: %d %v", path, g.status, g.header)
		}
	}
	g := v.get("/lib/tpl/dokuwiki/images/logo.png")
	if g.status != 200 || g.header.Get("Cache-Control") != "max-age=3600" {
		t.Errorf("the logo: %d %v", g.status, g.header)
	}
	v.denies("/inc/init.php", "/install.php", "/bin/dwpage.php", "/lib/plugins/config/admin.php",
		"/.htaccess", "/lib/tpl/dokuwiki/main.php", "/vendor/autoload.php",
		"/lib/exe/../../inc/init.php", "/no/such/page", "/_media/no.png", "/_media/indexer.php",
		"/data/pages/secret.txt")

	login := v.get("/start?do=login")
	token := hidden(login.body, "sectok")
	form := url.Values{"sectok": {token}, "id": {"start"}, "do": {"login"}, "u": {"ann"}}
	for _, password := range []string{"wrong", "pass word"} {
		form.Set("p", password)
		g := v.post("/start?do=login", form)
		if in := strings.Contains(g.body, "Logged in as"); in != (password != "wrong") {
			t.Errorf("logged in with %q: %v", password, in)
		}
	}
	v.shows(v.get("/start"), "Logged in as", "the first page")

	edit := v.get("/notes/new?do=edit")
	v.shows(edit, "wiki__text")
	token = hidden(edit.body, "sectok")
	v.shows(v.post("/notes/new?do=save", url.Values{"sectok": {token}, "id": {"notes:new"},
		"rev": {"0"}, "date": {hidden(edit.body, "date")}, "prefix": {"."}, "suffix": {""},
		"changecheck": {hidden(edit.body, "changecheck")}, "target": {"section"},
		"wikitext": {"what Ann has written"}, "summary": {""}, "do[save]": {"Save"}}),
		"what Ann has written")
	v.shows(visit(t, v.base).get("/notes/new"), "what Ann has written")

	v.upload("/lib/exe/mediamanager.php?ns=pics", "upload", "One.png", png, url.Values{
		"sectok": {token}, "ns": {"pics"}, "mediaid": {"one.png"}, "do": {"upload"}})
	if g := visit(t, v.base).get("/_media/pics/one.png"); g.status != 200 || g.body != png ||
		g.header.Get("Content-Type") != "image/png" {
		t.Errorf("the picture: %d %v %.300q", g.status, g.header, g.body)
	}
}

// TestAdminer: the page loads with its style and script, and a login that has to fail says why.
func TestAdminer(t *testing.T) {
	v := installed(t, "Adminer", "adminer", "/etc/adminer/conf.php", t.TempDir(), "")
	page := v.get("/adminer")
	v.shows(page, "Login", "auth[driver]")
	links := regexp.MustCompile(`(?:href|src)=["'](\?file=[^"']+)`)
	for _, link := range links.FindAllStringSubmatch(page.body, -1) {
		g := v.get("/adminer/" + strings.ReplaceAll(link[1], "&amp;", "&"))
		if g.status != 200 || g.body == "" || strings.Contains(g.body, "<html") {
			t.Errorf("%s: %d %.200s", link[1], g.status, g.body)
		}
	}
	g := v.post("/adminer/",
		url.Values{"auth[driver]": {"server"}, "auth[server]": {refuse.Address(t)},
			"auth[username]": {"ann"}, "auth[password]": {"x"}, "auth[db]": {""}})
	if g.status != 403 || !strings.Contains(g.body, "Connection refused") {
		t.Errorf("a login without a database: %d %.2000s", g.status, g.body)
	}
	v.denies("/adminer/adminer.php", "/adminer/conf.php.bak", "/adminer/../adminer.php", "/",
		"/adminer/conf.phps", "/adminer/.htaccess")
}

// TestPHPSysInfo: the page, its scripts and styles, and what it measures.
func TestPHPSysInfo(t *testing.T) {
	v := installed(t, "phpSysInfo", "phpsysinfo", "/usr/share/phpsysinfo/index.php", t.TempDir(),
		"")
	page := v.get("/phpsysinfo")
	v.shows(page, "phpSysInfo")
	n := 0
	links := regexp.MustCompile(`(?:href|src)="([^":]+)"`)
	for _, link := range links.FindAllStringSubmatch(page.body, -1) {
		path := strings.ReplaceAll(link[1], "&amp;", "&")
		if g := v.get("/phpsysinfo/" + path); g.status != 200 || g.body == "" {
			t.Errorf("%s: %d %.200s", path, g.status, g.body)
		}
		n++
	}
	if n < 3 { // its icon, its style, its script
		t.Errorf("the page has %d links", n)
	}
	v.shows(v.get("/phpsysinfo/xml.php?plugin=complete&json"), `"Vitals"`)
	if g := v.get("/phpsysinfo/gfx/favicon.ico"); g.status != 200 ||
		g.header.Get("Cache-Control") != "max-age=86400" {
		t.Errorf("the icon: %d %v", g.status, g.header)
	}
	v.denies("/phpsysinfo/read_config.php", "/phpsysinfo/includes/autoloader.inc.php",
		"/phpsysinfo/includes/js/README", "/phpsysinfo/data/", "/phpsysinfo/phpsysinfo.ini",
		"/phpsysinfo/includes/xml/class.XML.inc.php")
}
