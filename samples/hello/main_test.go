package main

import (
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func get(t *testing.T, url, host string) string {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), "GET", url, nil))(t)
	req.Host = host
	resp := must.Get(http.DefaultClient.Do(req))(t)
	return strings.TrimSpace(must.Body(t, resp))
}

func TestHello(t *testing.T) {
	url := "http://" + program.Start(t).Address
	for _, path := range []string{"/", "/some/where"} {
		if got, want := get(t, url+path, ""), "Hello from "+path; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
}

// Routes of a configuration are served beside the program's own handler, which is on every site.
func TestHelloWithConfiguration(t *testing.T) {
	file := program.Configure(t, t.TempDir(), `
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
`)
	url := "http://" + program.Start(t, "-c", file).Address
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

// A route with the prefix of the handler is refused.
func TestHelloInTheWay(t *testing.T) {
	file := program.Configure(t, t.TempDir(),
		"[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\n")
	for _, args := range [][]string{{"-c", file}, {"-r", "."}} {
		args = append(args, "-l", "127.0.0.1:0")
		program.Fails(t, args, 2, "the program has a handler of its own")
	}
}

// The program does not read an lwango.conf in the folder where it is started.
func TestHelloBesideAFile(t *testing.T) {
	cmd := program.Command(t, "-t")
	program.Configure(t, cmd.Dir, "this is not read")
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "built-in defaults: ok\n" {
		t.Errorf("%v\n%s", err, out)
	}
}
