package main

import (
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/sampletest"
)

func TestMain(m *testing.M) { sampletest.Main(m, main) }

func get(t *testing.T, url, host string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Host = host
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

func TestHello(t *testing.T) {
	url := "http://" + sampletest.Start(t).Address
	for _, path := range []string{"/", "/some/where"} {
		if got, want := get(t, url+path, ""), "Hello from "+path; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// A configuration stands beside the program's own handler, which is served on every site.
func TestHelloWithConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lwango.conf")
	err := os.WriteFile(file, []byte(`
[[site]]
[[site.route]]
prefix = "/fixed"
module = "response"
body = "from the file"
[[site]]
host = "other.example"
[[site.route]]
prefix = "/other"
module = "response"
body = "from the other site"
[[site]]
host = "third.example"
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + sampletest.Start(t, "-c", file).Address
	tests := []struct{ host, path, want string }{
		{"", "/", "Hello from /"},
		{"", "/fixed", "from the file"},
		{"", "/fixedly", "Hello from /fixedly"},
		{"third.example", "/x", "Hello from /x"},
		{"other.example", "/x", "Hello from /x"},
		{"other.example", "/other", "from the other site"},
	}
	for _, test := range tests {
		if got := get(t, url+test.path, test.host); got != test.want {
			t.Errorf("%s%s: got %q, want %q", test.host, test.path, got, test.want)
		}
	}
}

// A route for the same place as the handler is refused.
func TestHelloInTheWay(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lwango.conf")
	text := "[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\n"
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{{"-c", file}, {"-r", "."}} {
		args = append(args, "-l", "127.0.0.1:0")
		sampletest.Fails(t, args, 2, "the program has a handler of its own")
	}
}

// A file that lies about where the program is started is nothing to it.
func TestHelloBesideAFile(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lwango.conf"), []byte("this is not read"), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := sampletest.Command(t, "-t")
	cmd.Dir = dir
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "built-in defaults: ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
