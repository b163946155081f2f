package fastcgi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
)

// fetch sends a request to a server that runs apart from the test. fields are a name and a value in
// turn. Redirects are not followed.
func fetch(t *testing.T, method, url string, fields []string, body string) got {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(body)))(t)
	for i := 0; i < len(fields); i += 2 {
		req.Header.Add(fields[i], fields[i+1])
	}
	if host := req.Header.Get("Host"); host != "" {
		req.Host = host
	}
	tr := &http.Transport{DisableKeepAlives: true}
	resp := must.Get(tr.RoundTrip(req))(t)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return got{status: resp.StatusCode, reason: resp.Status, header: resp.Header, body: string(b),
		err: err}
}

const (
	// calls is a script that says how it was called.
	calls = `<?php echo "ran $_SERVER[SCRIPT_NAME] ", $_SERVER["PATH_INFO"] ?? "-",
" $_SERVER[QUERY_STRING]";`
	secret = "<?php a secret"
)

// shapes are trees of the shape that programs have, and what must become of requests for them: what
// a script says, a file's text, or a status.
var shapes = []struct {
	name, host string
	files      map[string]string
	want       map[string]string
}{
	{"WordPress", "blog.example.org", map[string]string{
		"wordpress/index.php": calls, "wordpress/wp-login.php": calls,
		"wordpress/wp-config.php": secret, "wordpress/wp-admin/index.php": calls,
		"wordpress/wp-admin/css/a.css": "style", "wordpress/wp-content/uploads/x.php": secret,
		"wordpress/wp-content/uploads/2026/11/a.txt": "upload",
		"wordpress/wp-content/uploads/x.php.jpg":     secret,
		"wordpress/wp-content/plugins/p/ajax.php":    calls,
		"wordpress/wp-content/dump.sql":              "secret", "wordpress/dump.sql.gz": "secret",
		"wordpress/wp-content/debug.log":         "secret",
		"wordpress/wp-content/themes/t/ajax.php": calls,
		"wordpress/wp-includes/version.php":      secret,
		"wordpress/wp-admin/includes/file.php":   secret,
		"wordpress/wp-admin/network/index.php":   calls,
		"wordpress/xmlrpc.php":                   secret,
		"wordpress/.htaccess":                    "secret", "wordpress/.git/config": "secret",
		"wordpress/wp-config.php.bak": secret,
	}, map[string]string{
		"/": "ran /index.php - ", "/2026/11/hello/?x=1": "ran /index.php - x=1",
		"/wp-json/wp/v2/posts": "ran /index.php - ", "/wp-login.php?a": "ran /wp-login.php - a",
		"/wp-admin/": "ran /wp-admin/index.php - ", "/wp-admin": "301",
		"/wp-admin/css/a.css":                "style",
		"/wp-content/uploads/2026/11/a.txt":  "upload",
		"/wp-content/plugins/p/ajax.php":     "ran /wp-content/plugins/p/ajax.php - ",
		"/wp-content/uploads/x.php":          "404",
		"/wp-content/uploads/x.php/a.css":    "404",
		"/wp-content/uploads/x.php.jpg":      "404",
		"/wp-content/uploads/a.txt/x.php":    "404",
		"/wp-content/uploads/%2e%2e/x.php":   "404",
		"/wp-config.php":                     "404",
		"/wp-config.php.bak":                 "404",
		"/wp-content/themes/t/ajax.php":      "ran /wp-content/themes/t/ajax.php - ",
		"/wp-admin/network/":                 "ran /wp-admin/network/index.php - ",
		"/wp-includes/version.php":           "404",
		"/wp-admin/includes/file.php":        "404",
		"/xmlrpc.php":                        "404",
		"/wp-content/debug.log":              "404",
		"/wp-content/dump.sql":               "404",
		"/dump.sql.gz":                       "404",
		"/.htaccess":                         "404",
		"/.git/config":                       "404",
		"/wp-content//uploads/./x.php":       "404",
		"/wp-content/uploads/x.php%00.jpg":   "400",
		"/wp-content/uploads/x.php%20":       "ran /index.php - ",
		"/wp-content/uploads/..%2f../x.php":  "404",
		"/wp-content/uploads/../../dump.sql": "404",
	}},
	{"Drupal", "drupal.example.org", map[string]string{
		"drupal/web/index.php": calls, "drupal/web/update.php": calls,
		"drupal/web/core/install.php": calls, "drupal/web/core/lib/Drupal.php": secret,
		"drupal/web/core/misc/drupal.js":                    "script",
		"drupal/web/modules/m/m.module":                     secret,
		"drupal/web/modules/m/m.info.yml":                   "secret",
		"drupal/web/modules/m/m.install~":                   secret,
		"drupal/web/themes/t/page.html.twig":                "secret",
		"drupal/web/sites/default/settings.php":             secret,
		"drupal/web/sites/default/files/a.txt":              "upload",
		"drupal/web/sites/default/files/x.php":              secret,
		"drupal/web/sites/default/private/a.txt":            "secret",
		"drupal/web/composer.json":                          "secret",
		"drupal/web/backup.sql":                             "secret",
		"drupal/web/.htaccess":                              "secret",
		"drupal/composer.json":                              "secret",
		"drupal/web/sites/default/files/.htaccess":          "secret",
		"drupal/web/core/modules/statistics/statistics.php": calls,
	}, map[string]string{
		"/": "ran /index.php - ", "/node/1?page=2": "ran /index.php - page=2",
		"/update.php/selection":                   "ran /update.php /selection ",
		"/core/install.php?a=b":                   "ran /core/install.php - a=b",
		"/core/modules/statistics/statistics.php": "ran /core/modules/statistics/statistics.php - ",
		"/core/misc/drupal.js":                    "script",
		"/sites/default/files/a.txt":              "upload",
		"/sites/default/files/styles/thumb/a.png": "ran /index.php - ",
		"/sites/default/files/x.php":              "404",
		"/sites/default/private/a.txt":            "404",
		"/sites/default/settings.php":             "404",
		"/sites/default/files/.htaccess":          "404",
		"/core/lib/Drupal.php":                    "404",
		"/modules/m/m.module":                     "404",
		"/modules/m/m.info.yml":                   "404",
		"/modules/m/m.install~":                   "404",
		"/themes/t/page.html.twig":                "404",
		"/composer.json":                          "404",
		"/backup.sql":                             "404",
		"/.htaccess":                              "404",
		"/../composer.json":                       "400",
	}},
	{"Nextcloud", "cloud.example.org", map[string]string{
		"nextcloud/index.php": calls, "nextcloud/remote.php": calls, "nextcloud/status.php": calls,
		"nextcloud/ocs/v2.php": calls, "nextcloud/core/css/a.css": "style",
		"nextcloud/config/config.php": secret, "nextcloud/data/admin/files/a.txt": "secret",
		"nextcloud/data/.ocdata": "secret", "nextcloud/lib/base.php": secret,
		"nextcloud/3rdparty/x.php": secret, "nextcloud/apps/files/index.php": secret,
		"nextcloud/.user.ini": "secret",
	}, map[string]string{
		"/": "ran /index.php - ", "/apps/files/?dir=/": "ran /index.php /apps/files/ dir=/",
		"/s/abc":                       "ran /index.php /s/abc ",
		"/index.php/apps/files":        "ran /index.php /apps/files ",
		"/remote.php/dav/files/a%20b/": "ran /remote.php /dav/files/a b/ ",
		"/status.php":                  "ran /status.php - ",
		"/ocs/v2.php/cloud/user?x":     "ran /ocs/v2.php /cloud/user x",
		"/core/css/a.css":              "style",
		"/config/config.php":           "ran /index.php /config/config.php ",
		"/lib/base.php":                "ran /index.php /lib/base.php ",
		"/3rdparty/x.php":              "ran /index.php /3rdparty/x.php ",
		"/data/admin/files/a.txt":      "404",
		"/data/.ocdata":                "404",
		"/data":                        "404",
		"/.user.ini":                   "404",
		"/.well-known/carddav":         "302",
		"/.well-known/webfinger":       "ran /index.php /.well-known/webfinger ",
	}},
	{"Symfony", "symfony.example.org", map[string]string{
		"symfony/current/public/index.php":     calls,
		"symfony/current/public/check.php":     secret,
		"symfony/current/public/build/app.css": "style",
		"symfony/current/.env":                 "secret",
		"symfony/current/src/Kernel.php":       secret,
	}, map[string]string{
		"/": "ran /index.php - ", "/blog/1?a=b": "ran /index.php - a=b",
		"/index.php/blog/1": "ran /index.php /blog/1 ",
		"/build/app.css":    "style", "/check.php": "404", "/.env": "ran /index.php - ",
		"/../.env": "400", "/src/Kernel.php": "404",
	}},
	{"Laravel", "laravel.example.org", map[string]string{
		"laravel/public/index.php":         calls,
		"laravel/public/build/app.css":     "style",
		"laravel/public/shell.php":         secret,
		"laravel/public/.htaccess":         "secret",
		"laravel/.env":                     "secret",
		"laravel/database/database.sqlite": "secret",
	}, map[string]string{
		"/": "ran /index.php - ", "/orders/1?a=b": "ran /index.php - a=b", "/shell.php": "404",
		"/build/app.css": "style", "/.htaccess": "404", "/.env": "ran /index.php - ",
		"/%2e%2e/.env": "400",
	}},
	{"MODX", "modx.example.org", map[string]string{
		"modx/index.php": calls, "modx/manager/index.php": calls,
		"modx/connectors/index.php": calls,
		"modx/assets/a.css":         "style", "modx/assets/components/c/connector.php": calls,
		"modx/assets/x.php": secret, "modx/core/config/config.inc.php": secret,
		"modx/core/packages/core.transport.zip": "secret", "modx/config.core.php": secret,
		"modx/ht.access": "text", "modx/site.sql": "secret",
	}, map[string]string{
		"/":                                      "ran /index.php - ",
		"/news/first-one?page=2":                 "ran /index.php - q=news/first-one&page=2",
		"/a&id=1":                                "ran /index.php - q=a%26id%3D1",
		"/news/":                                 "ran /index.php - q=news/",
		"/index.php?id=3":                        "ran /index.php - id=3",
		"/manager/?a=login":                      "ran /manager/index.php - a=login",
		"/connectors/index.php":                  "ran /connectors/index.php - ",
		"/assets/components/c/connector.php?a=b": "ran /assets/components/c/connector.php - a=b",
		"/assets/a.css":                          "style",
		"/assets/x.php":                          "404",
		"/core/config/config.inc.php":            "404",
		"/core/packages/core.transport.zip":      "404",
		"/core":                                  "404",
		"/config.core.php":                       "404",
		"/site.sql":                              "404",
	}},
}

// TestRecipes: the recipes for programs that are not installed.
func TestRecipes(t *testing.T) {
	f := startFPM(t, "unix")
	srv := t.TempDir()
	var config string
	for _, s := range shapes {
		write(t, srv, s.files)
		config += recipe(t, s.name)
	}
	url := serveConfig(t, strings.NewReplacer("unix:/run/php/php-fpm.sock", f.Address,
		"127.0.0.1:9000", f.Address, "/srv/", srv+"/", `"/app/`, `"`+srv+`/laravel/`,
	).Replace(config))
	for _, s := range shapes {
		for path, want := range s.want {
			g := fetch(t, "GET", url+path, []string{"Host", s.host}, "")
			have := g.body
			if g.err != nil || have != want && fmt.Sprint(g.status) != want ||
				strings.Contains(have, "secret") || strings.Contains(have, "<?") {
				t.Errorf("%s%s: %s %q, want %q", s.host, path, g.reason, have, want)
			}
		}
	}
}

// recipe returns the configuration below a heading of the recipes, which is short.
func recipe(t *testing.T, name string) string {
	t.Helper()
	text := section(t, "recipes.md", "## "+name)
	if n := strings.Count(text, "\n"); n > 25 {
		t.Errorf("the recipe for %s has %d lines", name, n)
	}
	return text
}
