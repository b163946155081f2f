package fastcgi_test

import (
	"bufio"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHugeHeader: the header of a response has a limit in bytes and one in fields. A header within
// them passes.
func TestHugeHeader(t *testing.T) {
	fields := func(n int) string {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "A%d:b\n", i%100)
		}
		return b.String()
	}
	for name, tt := range map[string]struct {
		head   string
		status int
	}{
		"1 MiB":              {"X: " + strings.Repeat("x", 1<<20) + "\r\n", 502},
		"1 MiB of fields":    {strings.Repeat("X: "+strings.Repeat("x", 1000)+"\r\n", 1<<10), 502},
		"10,000 fields":      {fields(10000), 502},
		"1,000 fields":       {fields(1000), 200},
		"60 KB":              {"X: " + strings.Repeat("x", 60000) + "\r\n", 200},
		"no end, no newline": {strings.Repeat("x", 1<<20), 502},
	} {
		up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
			c.Answer(tt.head + okHead + "hello")
		})
		p := serve(t, []string{up.Address}, nil)
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		// net/http would refuse that many fields itself
		line, err := bufio.NewReader(c).ReadString('\n')
		if err != nil || !strings.HasPrefix(line, fmt.Sprint("HTTP/1.1 ", tt.status, " ")) {
			t.Errorf("%s: %q, %v", name, line, err)
		}
		if !up.Wait(wait.Patience, func(_, open, _ int) bool { return open == 0 }) {
			t.Errorf("%s: the connection stays", name)
		}
	}
}

// TestFlush: a pause of the application flushes what it has written.
func TestFlush(t *testing.T) {
	for name, tt := range map[string]struct {
		head string
		now  bool
	}{
		"head alone":               {okHead, true},
		"head and body":            {okHead + "hello", true},
		"X-Accel-Buffering: no":    {"X-Accel-Buffering: no\r\n" + okHead + "hello", true},
		"X-Accel-Buffering: yes":   {"X-Accel-Buffering: yes\r\n" + okHead + "hello", false},
		"with a Content-Length":    {"Content-Length: 10\r\n" + okHead + "hello", true},
		"without anything, a head": {"Status: 200\r\n\r\n", true},
	} {
		goOn := make(chan bool)
		up := fcgitest.Start(t, "unix",
			func(c *fcgitest.Conn) { c.Read(); c.Stdout(tt.head); <-goOn; c.Reply("there") })
		p := serve(t, []string{up.Address},
			func(s *fastcgi.Settings) { s.ReadTimeout = time.Minute })
		c := p.Dial()
		fmt.Fprintf(c, "GET /x.php HTTP/1.1\r\nHost: a\r\n\r\n")
		r := bufio.NewReader(c)
		if !tt.now {
			c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if b, err := r.ReadByte(); err == nil {
				t.Errorf("%s: %c", name, b)
			}
			close(goOn)
			c.SetReadDeadline(time.Now().Add(wait.Patience))
		}
		std, err := http.ReadResponse(r, nil)
		if err != nil {
			t.Fatal(name, err)
		}
		_, body, _ := strings.Cut(tt.head, "\r\n\r\n")
		b := make([]byte, len(body))
		if _, err := io.ReadFull(std.Body, b); err != nil || string(b) != body {
			t.Errorf("%s: %q, %v", name, b, err)
		}
		if tt.now {
			close(goOn)
		}
		if b, err := io.ReadAll(std.Body); string(b) != "there" || err != nil {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

// TestClientsFault: a request that cannot be passed on is the client's fault, and no error in the
// log.
func TestClientsFault(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) { c.Hang() })
	p := serve(t, []string{up.Address}, nil)
	fields := []string{"Connection: " + strings.Repeat("a,", 300) + "b"}
	if g := p.request("GET /x.php", fields, ""); g.status != 400 {
		t.Error(g)
	}
	if log := p.log.String(); strings.Contains(log, "ERROR") ||
		!strings.Contains(log, "connection options") {
		t.Error(log)
	}
}
