package main

import (
	"bufio"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

// TestMain lets the test's binary be the sample, so that the test runs what `go run` would.
func TestMain(m *testing.M) {
	if os.Getenv("HELLO_SAMPLE") != "" {
		main()
	}
	os.Exit(m.Run())
}

// startSample runs the program until it listens. stop has it end in order.
func startSample(t *testing.T, args ...string) (url string, stop func()) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], args...)
	cmd.Env = append(os.Environ(), "HELLO_SAMPLE=1", "GORACE=atexit_sleep_ms=0")
	cmd.Dir = t.TempDir()
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(stderr)
	for listening := regexp.MustCompile(`msg=listening address=(\S+)`); url == ""; {
		if !lines.Scan() {
			t.Fatalf("ended before it listened: %v", cmd.Wait())
		}
		t.Log(lines.Text())
		if m := listening.FindStringSubmatch(lines.Text()); m != nil {
			url = "http://" + m[1]
		}
	}
	return url, func() {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		for lines.Scan() {
			t.Log(lines.Text())
		}
		if err := cmd.Wait(); err != nil {
			t.Errorf("stopped by SIGTERM: %v", err)
		}
	}
}

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
	url, stop := startSample(t, "-l", "127.0.0.1:0")
	for _, path := range []string{"/", "/some/where"} {
		if got, want := get(t, url+path, ""), "Hello from "+path; got != want {
			t.Errorf("%s: got %q, want %q", path, got, want)
		}
	}
	stop()
}

// A configuration stands beside the program's own handler: its prefixes are added, on every site, and where both have
// the same one, the configuration's is served.
func TestHelloWithConfiguration(t *testing.T) {
	file := filepath.Join(t.TempDir(), "lwango.conf")
	err := os.WriteFile(file, []byte(`
[[listener]]
address = "127.0.0.1:0"
[[site]]
[[site.route]]
prefix = "/fixed"
module = "response"
body = "from the file"
[[site]]
host = "other.example"
[[site.route]]
prefix = "/"
module = "response"
body = "from the other site"
[[site]]
host = "third.example"
`), 0o600)
	if err != nil {
		t.Fatal(err)
	}
	url, stop := startSample(t, "-c", file)
	tests := []struct{ host, path, want string }{
		{"", "/", "Hello from /"},
		{"", "/fixed", "from the file"},
		{"", "/fixedly", "Hello from /fixedly"},
		{"third.example", "/x", "Hello from /x"},
		{"other.example", "/x", "from the other site"},
	}
	for _, test := range tests {
		if got := get(t, url+test.path, test.host); got != test.want {
			t.Errorf("%s%s: got %q, want %q", test.host, test.path, got, test.want)
		}
	}
	stop()
}
