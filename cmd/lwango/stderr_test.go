package main

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestLogNobodyReads: stderr is a pipe that is full, and clients do what makes the server log long lines. Other clients
// do not notice: no loop waits for the reader of the log.
func TestLogNobodyReads(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "index.php"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	application, err := net.Listen("tcp", "127.0.0.1:0") // that accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer application.Close()
	conf := filepath.Join(dir, "lwango.conf")
	text := fmt.Sprintf("threads = 2\n[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n"+
		"[[site.route]]\nprefix = \"/hello\"\nhandler = \"hello_world\"\n"+
		"[[site.route]]\nprefix = \"/echo\"\nhandler = \"echo\"\n"+
		"[[site.route]]\nprefix = \"/\"\nmodule = \"fastcgi\"\naddress = %q\nscript_path = %q\n",
		application.Addr(), dir)
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}

	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command("lwango", "-c", conf)
	cmd.Stderr = w
	cmd.Env = append(cmd.Environ(), "GORACE="+noExitSleep)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		<-ended
	})
	var address string
	for log := bufio.NewReader(r); address == ""; {
		line, err := log.ReadString('\n')
		if err != nil {
			t.Fatal(err)
		}
		if m := regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(line); m != nil {
			address = m[1] // and from here on nobody reads
		}
	}

	alone := p99(t, address, func() bool { return false })
	var attack sync.WaitGroup
	over := make(chan struct{})
	target := strings.Repeat("x", 15<<10)
	options := strings.TrimSuffix(strings.Repeat("X-A, ", 17), ", ")
	for i := range 4 {
		attack.Go(func() {
			for range 250 {
				if i%2 == 0 {
					hostile(address, "POST /echo/"+target+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx", false)
				} else {
					hostile(address, "GET /index.php HTTP/1.1\r\nHost: x\r\nConnection: "+options+"\r\n\r\n", true)
				}
			}
		})
	}
	go func() { attack.Wait(); close(over) }()
	beside := p99(t, address, func() bool {
		select {
		case <-over:
			return false
		default:
			return true
		}
	})
	t.Logf("p99 of hello: %v alone, %v beside 1,000 hostile requests", alone, beside)
	if beside > 5*alone+50*time.Millisecond { // there is other load on this machine
		t.Errorf("p99 of hello: %v beside hostile requests, %v alone", beside, alone)
	}
	if n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ); err != nil || n == 0 {
		t.Errorf("%d bytes in the pipe (%v): nothing was logged", n, err)
	}

	// With somebody to read again the log goes on, and tells what is missing. The end is not lost.
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	rest, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`lines left out`, `msg=stopping`, `msg=stopped`} {
		if !strings.Contains(string(rest), want) {
			t.Errorf("no %s in the log:\n%s", want, rest)
		}
	}
	for line := range strings.Lines(string(rest)) {
		if len(line) > 2000 {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

// hostile sends a request and resets the connection, after the answer if that is awaited.
func hostile(address, request string, await bool) {
	c, err := net.Dial("tcp", address)
	if err != nil {
		return
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(patience))
	_, _ = io.WriteString(c, request)
	if await {
		_, _ = c.Read(make([]byte, 1))
	}
	_ = c.(*net.TCPConn).SetLinger(0)
}

// p99 measures requests for /hello, 300 at least, and as long as more says.
func p99(t *testing.T, address string, more func() bool) time.Duration {
	t.Helper()
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	var took []time.Duration
	for len(took) < 300 || more() {
		began := time.Now()
		resp, err := client.Get("http://" + address + "/hello")
		if err != nil {
			t.Fatalf("hello: %v", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		took = append(took, time.Since(began))
	}
	slices.Sort(took)
	return took[len(took)*99/100]
}
