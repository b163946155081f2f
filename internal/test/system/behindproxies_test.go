package system_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/fcgi"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/nginx"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/race"
)

// mixed is the variable that makes the test's binary the server of TestMixed that has the handlers.
const mixed = "LWANGO_MIXED"

// fill makes a text of n bytes that no other id has, in no other place.
func fill(id uint32, n int) []byte {
	text := make([]byte, 0, n+17)
	var word [8]byte
	binary.BigEndian.PutUint32(word[:], id)
	for i := uint32(0); len(text) < n; i++ {
		binary.BigEndian.PutUint32(word[4:], i)
		text = append(hex.AppendEncode(text, word[:]), '\n')
	}
	return text[:n]
}

// origin is a server whose answers tell which request they are for.
func origin() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	number := func(q url.Values, name string) int {
		n, _ := strconv.Atoi(q.Get(name))
		return n
	}
	handle := func(prefix string, h func(q url.Values, req *lwango.Request,
		resp *lwango.Response) int) {
		lwango.Handle(prefix, func(req *lwango.Request, resp *lwango.Response) int {
			q := req.Query()
			resp.Header().Set("X-Id", q.Get("id"))
			resp.Header().Set("Content-Type", q.Get("type"))
			return h(q, req, resp)
		})
	}
	handle("/made", func(q url.Values, req *lwango.Request, resp *lwango.Response) int {
		text := fill(uint32(number(q, "id")), number(q, "n"))
		switch q.Get("how") {
		case "reader":
			resp.SetBodyReader(bytes.NewReader(text), int64(len(text)))
		case "unknown":
			resp.SetBodyReader(bytes.NewReader(text), -1)
		case "pieces":
			for step := len(text)/3 + 1; len(text) > 0; {
				n := min(step, len(text))
				_, _ = resp.Write(text[:n]) // the client may leave
				if text = text[n:]; resp.Flush() != nil || req.Sleep(time.Millisecond) != nil {
					break
				}
			}
		default:
			resp.SetBody(text)
		}
		return 200
	})
	handle("/echo", func(_ url.Values, req *lwango.Request, resp *lwango.Response) int {
		text, err := io.ReadAll(req.Body())
		if err != nil {
			return 400
		}
		resp.SetBody(text)
		return 200
	})
	handle("/early", func(q url.Values, _ *lwango.Request, resp *lwango.Response) int {
		resp.SetBody([]byte("early " + q.Get("id")))
		return number(q, "status")
	})
	os.Exit(lwango.Run(context.Background(), ""))
}

// application is what origin's FastCGI application answers: as /echo, or as /made.
func application(w http.ResponseWriter, r *http.Request) {
	text, err := io.ReadAll(r.Body)
	q := r.URL.Query()
	id, _ := strconv.Atoi(q.Get("id"))
	n, _ := strconv.Atoi(q.Get("n"))
	w.Header().Set("X-Id", q.Get("id"))
	w.Header().Set("Content-Type", q.Get("type"))
	switch {
	case err != nil:
		w.WriteHeader(400)
	case r.Method == "POST":
		w.Write(text)
	default:
		w.Write(fill(uint32(id), n))
	}
}

// sizes of the files that origin has; their ids are their places here.
var sizes = []int{0, 1, 500, 1500, 4096, 40_000, 100_000, 600_000}

// TestMixed: clients of all kinds, some of whom leave, reach a server through nginx, which buffers
// requests or does not, and another lwango, which does or does not either. All of them share the
// connections in between, and each gets its own answer and nothing else.
func TestMixed(t *testing.T) {
	requests := int64(20_000)
	if race.Enabled || invariants.Enabled || !ci.Enabled() {
		requests = 3_000
	}
	dir := t.TempDir()
	for id, n := range sizes {
		for _, ending := range []string{".txt", ".bin"} {
			name := filepath.Join(dir, fmt.Sprint("f", id, ending))
			must.Do(t, os.WriteFile(name, fill(uint32(id), n), 0o644))
		}
	}
	ln := must.Listen(t)
	served := make(chan error, 1)
	go func() { served <- fcgi.Serve(ln, http.HandlerFunc(application)) }()
	t.Cleanup(func() {
		ln.Close()
		if err := <-served; !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})

	t.Setenv(mixed, "origin")
	behind := program.Start(t, "-c", program.Configure(t, t.TempDir(), fmt.Sprintf(`
threads = 2
keep_alive_timeout = "5m"
[[site]]
[[site.route]]
prefix = "/files"
module = "serve_files"
path = %q
[[site.route]]
prefix = "/fcgi"
module = "fastcgi"
address = %q
script_path = %[1]q
check_file = false
split_path = "app"
try_files = "off"
keep_conn = true
max_idle = 8
compression = false
[[site.route]]
prefix = "/limited"
handler = "echo"
limit = { max_body_size = "1KiB" }
`, dir, ln.Addr())))
	t.Setenv(mixed, "front")
	front := program.Start(t, "-c", program.Configure(t, t.TempDir(), strings.ReplaceAll(`
threads = 2
keep_alive_timeout = "5m"
[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
address = "BEHIND"
[[site.route]]
prefix = "/live"
module = "proxy"
address = "BEHIND"
strip_prefix = true
request_buffering = false
[[site.route]]
prefix = "/capped"
module = "proxy"
address = "BEHIND"
strip_prefix = true
limit = { max_body_size = "1KiB" }
`, "BEHIND", behind.Address)))
	sockets := nginx.Start(t, strings.ReplaceAll(`
	upstream front { server FRONT max_fails=0; keepalive 8; }
	proxy_http_version 1.1; proxy_set_header Connection ""; proxy_set_header Host mixed.test;
	proxy_next_upstream off; client_max_body_size 0;
	server {
		listen unix:DIR/socket;
		location / { proxy_pass http://front; proxy_request_buffering off; }
	}
	server {
		listen unix:DIR/whole;
		location / { proxy_pass http://front; proxy_request_buffering on; }
	}
`, "FRONT", front.Address), "socket", "whole")

	var all sync.WaitGroup
	var asked, left atomic.Int64
	begun := time.Now()
	for seed := range uint64(12) {
		all.Go(func() {
			c := &asker{random: rand.New(rand.NewPCG(13, seed)), network: "unix",
				address: filepath.Join(sockets, []string{"socket", "whole"}[seed%2])}
			if seed >= 10 {
				c.network, c.address = "tcp", front.Address
			}
			defer c.drop()
			for asked.Add(1) <= requests && !t.Failed() {
				if c.random.IntN(50) == 0 {
					left.Add(1)
					c.leave()
				} else if what, err := c.one(); err != nil {
					t.Errorf("seed %d, %s, %s: %v", seed, filepath.Base(c.address), what, err)
				}
			}
		})
	}
	all.Wait()
	t.Logf("%d requests in %v, %d of them given up; processor time %v in front and %v behind",
		min(asked.Load(), requests), time.Since(begun), left.Load(), front.CPU(t), behind.CPU(t))
	for _, s := range []*program.Server{front, behind} {
		if strings.Contains(s.Log(), "level=ERROR") {
			t.Error("one of the servers has logged an error")
		}
	}
}
