package server_test

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
)

// inForce is what -T prints for a configuration, without the first line, which names the file.
func inForce(t *testing.T, path string, more ...string) string {
	t.Helper()
	var stdout, stderr strings.Builder
	o, _ := server.Parse(append([]string{"-T", "-c", path}, more...), new(flag.FlagSet), &stdout,
		&stderr)
	if o == nil {
		t.Fatal(stderr.String())
	}
	p := server.NewProgram(config.Builtin())
	p.Broker = source().Broker
	if code := p.Main(context.Background(), o, "", &stdout, &stderr); code != 0 {
		t.Fatalf("-T of %s: code %d, %s", path, code, stderr.String())
	}
	first, rest, _ := strings.Cut(stdout.String(), "\n")
	if !strings.HasPrefix(first, "# ") {
		t.Errorf("the first line is %q", first)
	}
	return rest
}

// TestInForceAgain: what -T prints is a configuration of which -T prints the same.
func TestInForceAgain(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		must.Write(t, path, text)
		return path
	}
	t.Setenv("LWANGO_NAME", "secret of the environment")
	t.Setenv("LWANGO_DIR", dir)
	file("secret", "redis://u:secret-of-a-file@host:6379\n\n")
	file("site.inc", `[[site]]
host = "two.test"
https = "redirect"
hsts = { max_age = "8760h" }
limit = { requests = "10/s", burst = 20 }
error_pages = { 404 = "/gone" }
compression = false
[[site.rule]]
path = ["*.sql", "/data/**"]
not = { client = "10.0.0.0/8" }
deny = 404
[[site.route]]
prefix = "/"
module = "proxy"
address = ["127.0.0.1:9001", "127.0.0.1:9002"]
[[site.route]]
prefix = "/php"
module = "fastcgi"
address = "127.0.0.1:9000"
script_path = "${LWANGO_DIR}"
params = { A = "${LWANGO_NAME}" }
limit = { allow = ["10.0.0.0/8"] }
`)
	all := file("all.conf", `include = "*.inc"
grace = "90s"
max_body_size = "2GiB"
[pubsub]
url = "${file:${LWANGO_DIR}/secret}"
[compression]
types = ["text/*"]
[headers]
a = "$${LWANGO_NAME}"
b = ["x", "y"]
[[listener]]
address = "127.0.0.1:8081"
trusted_proxies = "127.0.0.1"
[[site]]
host = "one.test"
[[site.route]]
prefix = "/"
module = "response"
body = """of
${LWANGO_NAME} and ${file:secret}"""
`)
	for _, path := range []string{all, "../../../lwango.conf", "../../../samples/php/lwango.conf",
		file("empty.conf", "")} {
		first := inForce(t, path)
		again := filepath.Join(beside(t, filepath.Dir(path)), "again")
		must.Write(t, again, first)
		if diff := cmp.Diff(first, inForce(t, again)); diff != "" {
			t.Errorf("%s (-first +again):\n%s", path, diff)
		}
	}

	text := inForce(t, all)
	for _, want := range []string{
		"\ngrace = \"90s\"\n", "\nmax_spool = \"8GiB\"\n", "\nkeep_alive_timeout = \"15s\"\n",
		"url = \"${file:${LWANGO_DIR}/secret}\"\n", "a = \"$${LWANGO_NAME}\"\n",
		"A = \"${LWANGO_NAME}\"\n",
		"host = \"two.test\"\n", "max_conns = 0\n", "retry_time = -1\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q", want)
		}
	}
	for _, no := range []string{"secret of the", "secret-of", "include ="} {
		if strings.Contains(text, no) {
			t.Errorf("it has %q", no)
		}
	}
	if t.Failed() {
		t.Log(text)
	}

	text = inForce(t, all, "-l", "127.0.0.1:1", "-r", dir)
	if !strings.Contains(text,
		"\n[[listener]]\naddress = \"127.0.0.1:1\"\nhttp2 = false\nproxy_protocol") ||
		!strings.Contains(text, dir) || strings.Contains(text, "two.test") {
		t.Errorf("with -l and -r:\n%s", text)
	}
}

// beside is a folder with the same names as dir, for relative paths.
func beside(t *testing.T, dir string) string {
	t.Helper()
	dir = must.Get(filepath.Abs(dir))(t)
	all := must.Get(os.ReadDir(dir))(t)
	other := t.TempDir()
	for _, entry := range all {
		must.Do(t, os.Symlink(filepath.Join(dir, entry.Name()), filepath.Join(other, entry.Name())))
	}
	return other
}

// TestSecretFiles: what cannot be read is named, and nothing holds up the start.
func TestSecretFiles(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	for name, text := range map[string]string{"long": strings.Repeat("x", 1<<16+1),
		"short": "a\r\nb\r\n\n"} {
		must.Write(t, name, text)
	}
	for _, row := range []struct{ value, want string }{
		{"${file:none}", "t.conf:4: site.route.body: open " + dir + "/none: no such file or directory"},
		{"${file:long}", "t.conf:4: site.route.body: " + dir + "/long: longer than 64 KiB"},
		{"${file:.}", "t.conf:4: site.route.body: " + dir + ": not a regular file"},
		{"${file:/dev/zero}", "t.conf:4: site.route.body: /dev/zero: not a regular file"},
		{"${file:${LWANGO_NOT_SET}/x}",
			"t.conf:4: site.route.body: the environment has no variable LWANGO_NOT_SET"},
		{"${file:short}", ""},
		{"$${file:none}", ""},
	} {
		got := ""
		if _, err := source().Parse("t.conf",
			route("prefix = \"/\"\nbody = \""+row.value+"\"\nmodule = \"response\"")); err != nil {
			got = err.Error()
		}
		if got != row.want {
			t.Errorf("%s: %s\nwant %s", row.value, got, row.want)
		}
	}
}
