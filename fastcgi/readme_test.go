package fastcgi_test

import (
	"bufio"
	"context"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
)

var wordpress = map[string]string{
	"index.php": `<?php
echo "front ", $_SERVER["REQUEST_URI"], " ", $_SERVER["SCRIPT_NAME"];`,
	"wp-login.php":                    `<?php echo "login";`,
	"wp-admin/index.php":              `<?php echo "admin ", $_SERVER["SCRIPT_NAME"];`,
	"wp-includes/style.css":           "a style",
	"wp-includes/empty/x.css":         "",
	"wp-content/uploads/a.txt":        "an upload",
	"wp-content/uploads/evil.php":     `<?php echo "ran ", "evil";`,
	"wp-content/uploads/evil.jpg":     `<?php echo "ran ", "evil";`,
	"wp-content/uploads/index.php":    `<?php echo "ran ", "index";`,
	"wp-content/uploads/evil.PHP.txt": `<?php echo "ran ", "evil";`,
	".htaccess":                       "secret",
}

var laravel = map[string]string{
	"public/index.php": `<?php $path = strtok($_SERVER["REQUEST_URI"], "?");
if ($path === "/invoice") {
  header("X-Accel-Redirect: /invoices/1.pdf"); header("Content-Type: application/pdf"); }
elseif ($path === "/steal") header("X-Accel-Redirect: /../../.env");
else echo "front $path $_SERVER[APP_ENV] $_SERVER[REQUEST_METHOD] ",
  file_get_contents("php://input");`,
	"public/robots.txt":          "for robots",
	"storage/app/invoices/1.pdf": "an invoice",
	"storage/app/public/a.txt":   "public",
	"storage/app/public/x.php":   `<?php echo "ran ", "x";`,
	".env":                       "APP_KEY=secret",
}

// TestReadmeExamples: the examples of the README are accepted and do what the README says. Here the
// trees are elsewhere and small, and one of three machines is up.
func TestReadmeExamples(t *testing.T) {
	here, there := startFPM(t, "unix"), startFPM(t, "tcp")
	srv := t.TempDir()
	for name, files := range map[string]map[string]string{"wordpress": wordpress, "shop": laravel} {
		write(t, filepath.Join(srv, name), files)
	}
	// artisan's link to the storage: no request comes here, and it leads out of public.
	must.Do(t, os.Symlink(filepath.Join(srv, "shop/storage/app/public"),
		filepath.Join(srv, "shop/public/storage")))
	url := serveConfig(t, strings.NewReplacer(
		"unix:/run/php/php-fpm.sock", here.Address,
		"10.0.0.2:9000", there.Address,
		"10.0.0.3:9000", refuse.Address(t),
		"10.0.0.4:9000", refuse.Address(t),
		"/srv/", srv+"/",
	).Replace(section(t, "README.md", "## Example")))

	const blog, shop = "blog.example.org", "shop.example.org"
	tests := []struct {
		host, method, path string
		status             int
		want               string // the body, or where a redirect leads
	}{
		{blog, "GET", "/", 200, "front / /index.php"},
		{blog, "GET", "/2026/11/hello/?p=1", 200, "front /2026/11/hello/?p=1 /index.php"},
		{blog, "GET", "/wp-json/wp/v2/posts", 200, "front /wp-json/wp/v2/posts /index.php"},
		{blog, "GET", "/wp-login.php", 200, "login"},
		{blog, "GET", "/wp-admin", 301, "/wp-admin/"},
		{blog, "GET", "/wp-admin/", 200, "admin /wp-admin/index.php"},
		{blog, "GET", "/wp-admin/no.php", 404, ""},
		{blog, "GET", "/wp-includes/style.css", 200, "a style"},
		{blog, "GET", "/wp-includes/empty/", 200, "front /wp-includes/empty/ /index.php"},
		{blog, "GET", "/.htaccess", 404, ""},
		{blog, "GET", "/wp-content/uploads/a.txt", 200, "an upload"},
		{blog, "GET", "/wp-content/uploads/evil.php", 404, ""},
		{blog, "GET", "/wp-content/uploads/evil.PHP.txt", 404, ""},
		{blog, "GET", "/wp-content/uploads/index.php", 404, ""},
		{blog, "GET", "/wp-content/uploads/evil.jpg/x.php", 404, ""},
		{blog, "GET", "/wp-content/uploads/evil.php/x.php", 404, ""},
		{blog, "GET", "/wp-content/uploads/", 404, ""},
		{blog, "GET", "/wp-content/uploads", 301, "/wp-content/uploads/"},

		{shop, "GET", "/", 200, "front / production GET "},
		{shop, "POST", "/orders/1?x=y", 200, "front /orders/1 production POST a body"},
		{shop, "GET", "/robots.txt", 200, "for robots"},
		{shop, "GET", "/invoice", 200, "an invoice"},
		{shop, "GET", "/steal", 404, ""},
		{shop, "GET", "/.env", 200, "front /.env production GET "},
		{shop, "GET", "/../.env", 400, ""},
		{shop, "GET", "/storage/a.txt", 200, "public"},
		{shop, "GET", "/storage/x.php", 404, ""},
		{shop, "GET", "/storage/app/invoices/1.pdf", 404, ""},
	}
	client := &http.Client{
		Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request,
			[]*http.Request) error {
			return http.ErrUseLastResponse
		},
	}
	for _, test := range tests {
		var body string
		if test.method == "POST" {
			body = "a body"
		}
		req := must.Get(http.NewRequestWithContext(t.Context(), test.method, url+test.path,
			strings.NewReader(body)))(t)
		req.Host = test.host
		resp := must.Get(client.Do(req))(t)
		got := must.Body(t, resp)
		if resp.StatusCode == 301 {
			got = resp.Header.Get("Location")
		}
		if resp.StatusCode != test.status || test.status < 400 && got != test.want {
			t.Errorf("%s%s: got %d %q, want %d %q", test.host, test.path, resp.StatusCode, got,
				test.status, test.want)
		}
		if strings.Contains(got, "secret") || strings.Contains(got, "ran evil") ||
			strings.Contains(got, "<?php") {
			t.Errorf("%s%s: got %q", test.host, test.path, got)
		}
		if kind := resp.Header.Get("Content-Type"); test.path == "/invoice" &&
			kind != "application/pdf" {
			t.Errorf("the invoice is a %s", kind)
		}
	}
}

// section returns the code below a heading of a manual.
func section(t *testing.T, file, heading string) (text string) {
	t.Helper()
	manual := must.Read(t, file)
	_, below, found := strings.Cut(manual, "\n"+heading+"\n")
	if !found {
		t.Fatalf("%s has no %q", file, heading)
	}
	for line := range strings.Lines(below) {
		if strings.HasPrefix(line, "## ") {
			break
		}
		if code, ok := strings.CutPrefix(line, "    "); ok {
			text += code
		}
	}
	return text
}

// serveConfig serves what a configuration says, as lwango does, until the test ends.
func serveConfig(t *testing.T, text string) (url string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "lwango.conf")
	must.Write(t, file, text)
	args := []string{"-c", file, "-l", "127.0.0.1:0"}
	o, _ := server.Parse(args, flag.NewFlagSet("", flag.ContinueOnError), io.Discard, io.Discard)
	ctx, stop := context.WithCancel(context.Background())
	log, stderr := io.Pipe()
	code := make(chan int, 1)
	go func() {
		code <- server.NewProgram(config.Builtin()).Main(ctx, o, "", io.Discard, stderr)
		stderr.Close()
	}()
	t.Cleanup(func() {
		stop()
		if code := <-code; code != 0 {
			t.Errorf("exit code %d, with\n%s", code, text)
		}
	})
	for lines := bufio.NewScanner(log); lines.Scan(); {
		if _, rest, ok := strings.Cut(lines.Text(), "msg=listening address="); ok {
			go io.Copy(io.Discard, log)
			address, _, _ := strings.Cut(rest, " ")
			return "http://" + address
		}
		t.Log(lines.Text())
	}
	t.Fatal("the server does not listen")
	return ""
}
