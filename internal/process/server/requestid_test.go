package server_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestRequestIDEverywhere: the access log, the log and an upstream tell of a request by one id,
// which a trusted proxy may have named; and the access log says how long the upstream has taken.
func TestRequestIDEverywhere(t *testing.T) {
	t.Parallel()
	const pause = 20 * time.Millisecond
	told := make(chan string, 1)
	app := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		told <- r.Header.Get("X-Request-ID")
		if r.Header.Get("Upgrade") != "" {
			c, rw, err := w.(http.Hijacker).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(c,
				"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n")
			_, _ = rw.ReadByte() // until the client leaves
			c.Close()
			return
		}
		time.Sleep(pause)
		_, _ = io.WriteString(w, "first")
		_ = http.NewResponseController(w).Flush()
		time.Sleep(pause)
		_, _ = io.WriteString(w, "second")
	})}
	ln := must.Listen(t)
	go app.Serve(ln)
	defer app.Close()

	dir := t.TempDir()
	s := source()
	text := new(logtext.Buffer)
	s.Logger = logtext.Logger(t, text)
	s.File = filepath.Join(dir, "t.conf")
	srv := serve(t, s, fmt.Sprintf(`threads = 1
[[listener]]
address = "127.0.0.1:0"
trusted_proxies = ["127.0.0.0/8"]
[access_log]
path = "log"
format = "json"
[[site]]
[[site.route]]
prefix = "/app"
module = "proxy"
address = %q
[[site.route]]
prefix = "/gone"
module = "proxy"
address = %q
`, ln.Addr(), refuse.Address(t)))

	type line struct {
		ID       string  `json:"request_id"`
		Target   string  `json:"target"`
		Status   int     `json:"status"`
		In       int     `json:"bytes_in"`
		Duration float64 `json:"duration"`
		Upstream string  `json:"upstream"`
		First    float64 `json:"upstream_first_byte"`
		Whole    float64 `json:"upstream_time"`
	}
	lines := 0
	next := func() (l line) {
		t.Helper()
		var all []string
		wait.Until(t, "the line is written", func() bool {
			b, _ := os.ReadFile(filepath.Join(dir, "log"))
			all = strings.SplitAfter(string(b), "\n")
			return len(all) > lines+1
		})
		must.Do(t, json.Unmarshal([]byte(all[lines]), &l))
		lines++
		return l
	}
	dial := func(request string) net.Conn {
		t.Helper()
		c := must.Get(net.Dial("tcp", srv.at))(t)
		must.Get(io.WriteString(c, request))(t)
		return c
	}
	get := func(path, fields string) (request string) {
		t.Helper()
		request = "GET " + path + " HTTP/1.1\r\nHost: a\r\nConnection: close\r\n" + fields + "\r\n"
		c := dial(request)
		defer c.Close()
		if _, err := io.Copy(io.Discard, c); err != nil {
			t.Error(err)
		}
		return request
	}

	for _, fields := range []string{"", "X-Request-ID: from-the-proxy\r\n"} {
		request := get("/app", fields)
		l, id := next(), <-told
		low := pause.Seconds()
		if l.ID == "" || l.ID != id || (fields != "") != (id == "from-the-proxy") ||
			l.In != len(request) || l.Upstream != ln.Addr().String() || l.First < low || l.Whole < l.First ||
			l.Whole < 2*low || l.Duration < l.Whole-0.5 {
			t.Errorf("%+v, the upstream was told %q", l, id)
		}
	}

	get("/gone", "")
	l := next()
	if l.Status != 502 || l.First != 0 || l.Upstream == "" ||
		!strings.Contains(text.String(), "request_id="+l.ID+" ") {
		t.Errorf("%+v\n%s", l, text.String())
	}

	// A tunnel is logged at its end, with the time until it began.
	conn := dial("GET /app HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: own\r\n\r\n")
	id := <-told
	if _, err := conn.Read(make([]byte, 1)); err != nil {
		t.Error(err)
	}
	conn.Close()
	if l := next(); l.ID != id || l.Status != 101 || l.Upstream == "" || l.First <= 0 {
		t.Errorf("%+v, the upstream was told %q", l, id)
	}
}
