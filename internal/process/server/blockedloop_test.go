package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestHeldLoopIsSeen: while a loop is held up, what it has counted before stays in the sums, and
// the loops behind it are asked and heard.
func TestHeldLoopIsSeen(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(0))
	held, release := make(chan struct{}), make(chan struct{})
	s := source()
	s.Counters = new(config.Counters)
	build := func(_ struct{}, env handlers.Env) (conn.Handler, error) {
		return func(req *conn.Request, resp *conn.Response) int {
			if req.SubPath() == "/hold" {
				close(held)
				<-release
			}
			fmt.Fprint(resp, slices.Index(env.Loops(), req.Thread.Loop()))
			return 200
		}, nil
	}
	handlers.RegisterModule(s.Modules, "loops", struct{}{}, build)
	dir := t.TempDir()
	s.File = filepath.Join(dir, "lwango.conf")
	srv := serve(t, s, "threads = 2\n[debug]\naddress = \"unix:debug\"\n"+
		route("prefix = \"/loop\"\nmodule = \"loops\"\n")+
		"[[site.route]]\nprefix = \"/status\"\nmodule = \"status\"\n")

	var conns [2]net.Conn // by the number of their loop
	for conns[0] == nil || conns[1] == nil {
		c := must.Dial(t, "tcp", srv.at)
		conns[askOn(t, c, "/loop")[0]-'0'] = c
	}
	look := func() (s metrics.Snapshot) {
		t.Helper()
		must.Do(t, json.Unmarshal([]byte(askOn(t, conns[1], "/status/json")), &s))
		return s
	}
	before := look()
	if !before.Loops[0].Answered || !before.Loops[1].Answered {
		t.Fatalf("%+v", before.Loops)
	}

	fmt.Fprint(conns[0], "GET /loop/hold HTTP/1.1\r\nHost: a\r\n\r\n")
	<-held
	dumped := make(chan string)
	go func() {
		client := http.Client{Timeout: wait.Patience, Transport: &http.Transport{DisableKeepAlives: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", filepath.Join(dir, "debug"))
			}}}
		resp, err := client.Get("http://debug/debug/threads")
		if err != nil {
			dumped <- err.Error()
			return
		}
		defer resp.Body.Close()
		text, _ := io.ReadAll(resp.Body)
		dumped <- string(text)
	}()
	now, dump := look(), <-dumped
	close(release)

	if now.Loops[0].Answered || !now.Loops[1].Answered {
		t.Errorf("%+v", now.Loops)
	}
	if now.Requests.Total <= before.Requests.Total || now.Requests.Got < before.Requests.Got ||
		now.Connections.Accepted < before.Connections.Accepted {
		t.Errorf("requests: %+v, before: %+v; connections: %+v, before: %+v",
			now.Requests, before.Requests, now.Connections, before.Connections)
	}
	n, was := countsOf(&now, "/loop"), countsOf(&before, "/loop")
	if n.Requests() != was.Requests() || n.Sent != was.Sent {
		t.Errorf("the counters of a route are %+v, before: %+v", n, was)
	}
	if !strings.Contains(dump, "loop 0 does not answer") || !strings.Contains(dump, "loop 1: ") {
		t.Errorf("the dump is\n%s", dump)
	}
}

// askOn asks on a connection that stays open, and returns the body.
func askOn(t *testing.T, c net.Conn, path string) string {
	t.Helper()
	fmt.Fprintf(c, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path)
	resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(resp.Status, err)
	}
	return string(text)
}
