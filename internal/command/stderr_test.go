package command_test

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

	"github.com/lwango/lwango/internal/test/must"
)

// TestLogNobodyReads: stderr is a pipe that is full, and clients do what makes the server log long
// lines. Other clients do not notice: no loop waits for the reader of the log.
func TestLogNobodyReads(t *testing.T) {
	read, _ := besideHostile(t, true)
	unread, end := besideHostile(t, false)
	t.Logf("median of hello beside 1,000 hostile requests: %v, and %v where nobody reads the log",
		read, unread)
	// There is other load on this machine, which may hold up a few. A loop that waits does so for
	// ever, and each second request is for it.
	if unread > 5*read+100*time.Millisecond {
		t.Errorf("median of hello: %v where the log is read, else %v", read, unread)
	}
	// When it is read again, the log goes on, and tells what is missing. The end is not lost.
	for _, want := range []string{`lines left out`, `msg=stopping`, `msg=stopped`} {
		if !strings.Contains(end, want) {
			t.Errorf("no %s in the log:\n%s", want, end)
		}
	}
	// A line with a stack is not a client's doing: a loop of a busy machine was held up.
	for line := range strings.Lines(end) {
		if len(line) > 2000 && !strings.Contains(line, " stack=") {
			t.Errorf("a line of %d bytes: %.200s", len(line), line)
		}
	}
}

// besideHostile returns the median of hello beside 1,000 hostile requests, and what the log has
// after them.
func besideHostile(t *testing.T, read bool) (median time.Duration, rest string) {
	t.Helper()
	dir := t.TempDir()
	must.Write(t, filepath.Join(dir, "index.php"), "")
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
	must.Write(t, conf, text)

	r, w := must.Pipe(t)
	must.Get(unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, 4096))(t)
	cmd := exec.Command("lwango", "-c", conf)
	cmd.Stderr = w
	cmd.Env = append(cmd.Environ(), "GORACE="+noExitSleep)
	must.Do(t, cmd.Start())
	w.Close()
	defer func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	}()
	log := bufio.NewReader(r)
	var address string
	for address == "" {
		line := must.Get(log.ReadString('\n'))(t)
		if m := regexp.MustCompile(`msg=listening address=(\S+)`).FindStringSubmatch(line); m != nil {
			address = m[1]
		}
	}
	all := make(chan string, 1)
	readAll := func() {
		text, err := io.ReadAll(log)
		if err != nil {
			t.Error(err)
		}
		all <- string(text)
	}
	if read {
		go readAll()
	}

	var attack sync.WaitGroup
	over := make(chan struct{})
	target := strings.Repeat("x", 15<<10)
	options := strings.TrimSuffix(strings.Repeat("X-A, ", 17), ", ")
	for i := range 4 {
		attack.Go(func() {
			for range 250 {
				if i%2 == 0 {
					hostile(address, "POST /echo/"+target+" HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\nx",
						false)
				} else {
					hostile(address, "GET /index.php HTTP/1.1\r\nHost: x\r\nConnection: "+options+"\r\n\r\n", true)
				}
			}
		})
	}
	go func() { attack.Wait(); close(over) }()
	median = measure(t, address, over)
	if !read {
		if n, err := unix.IoctlGetInt(int(r.Fd()), unix.TIOCINQ); err != nil || n == 0 {
			t.Errorf("%d bytes in the pipe (%v): nothing was logged", n, err)
		}
		go readAll()
	}
	must.Do(t, cmd.Process.Signal(os.Interrupt))
	return median, <-all
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

// measure returns the median of requests for /hello, of 300 at least, and of as many as there can
// be until it is over.
func measure(t *testing.T, address string, over <-chan struct{}) time.Duration {
	t.Helper()
	client := http.Client{Timeout: patience}
	defer client.CloseIdleConnections()
	var took []time.Duration
	for more := true; more || len(took) < 300; {
		began := time.Now()
		resp, err := client.Get("http://" + address + "/hello")
		if err != nil {
			t.Fatalf("hello: %v", err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		took = append(took, time.Since(began))
		select {
		case <-over:
			more = false
		default:
		}
	}
	slices.Sort(took)
	return took[len(took)/2]
}
