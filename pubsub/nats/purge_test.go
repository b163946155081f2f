package nats_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/rooms"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub/nats"
)

// keeper is a program that keeps what it answers, and purges what has a tag when it is asked to.
func keeper() {
	lwango.UseBroker(nats.Broker)
	lwango.Handle("/purge", func(req *lwango.Request, resp *lwango.Response) int {
		tag := req.RawQuery()
		_, err := lwango.Await(req, wait.Patience, func(context.Context) (struct{}, error) {
			return struct{}{}, lwango.Cache().Purge(lwango.Purge{Tags: []string{tag}})
		})
		if err != nil {
			return resp.Text(500, err.Error())
		}
		return resp.Text(200, "purged")
	})
	os.Exit(lwango.Run(context.Background(), ""))
}

// askKeeper asks a keeper, and reports whether the answer is one that it has kept.
func askKeeper(t *testing.T, s *program.Server, path string) (hit bool) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: wait.Patience}
	resp := must.Get(client.Get("http://" + s.Address + path))(t)
	if text := must.Body(t, resp); resp.StatusCode != 200 {
		t.Fatalf("%s: %d %s", path, resp.StatusCode, text)
	}
	return strings.Contains(resp.Header.Get("Cache-Status"), "; hit")
}

// What a program purges by lwango.Cache in one process, the others purge as well, and once; also
// what was purged while they were cut off from the broker. One without the broker purges nothing.
func TestPurgeOfProcesses(t *testing.T) {
	b := startBroker(t)
	w := rooms.StartWire(t, b.addr())
	start := func(url string) *program.Server {
		config := ""
		if url != "" {
			config = fmt.Sprintf("[pubsub]\nurl = %q\n", url)
		}
		return program.Start(t, "-c", program.Configure(t, t.TempDir(), config+`
[[site]]
[[site.route]]
prefix = "/greeting"
module = "response"
body = "hello"
headers = { cache-tag = "greeting" }
cache = { ttl = { 200 = "1h" } }
[[site.route]]
prefix = "/other"
module = "response"
body = "other"
cache = { ttl = { 200 = "1h" } }
`))
	}
	one, two, alone := start(b.url()), start("nats://"+w.Addr()), start("")
	all := []*program.Server{one, two, alone}
	keep := func() {
		for i, s := range all {
			for _, path := range []string{"/greeting", "/other"} {
				askKeeper(t, s, path)
				if !askKeeper(t, s, path) {
					t.Errorf("process %d does not keep %s", i, path)
				}
			}
		}
	}
	purged := func() {
		t.Helper()
		wait.Until(t, "the other one purges", func() bool { return !askKeeper(t, two, "/greeting") })
		for i, s := range all {
			if !askKeeper(t, s, "/other") {
				t.Errorf("process %d has purged what was not meant", i)
			}
		}
		if !askKeeper(t, alone, "/greeting") {
			t.Error("a process without the broker has purged")
		}
	}
	keep()
	askKeeper(t, one, "/purge?greeting")
	if askKeeper(t, one, "/greeting") {
		t.Error("its own purge has no effect")
	}
	purged()
	if !askKeeper(t, two, "/greeting") || !askKeeper(t, one, "/greeting") {
		t.Error("one purge takes effect twice")
	}

	w.Cut(true)
	two.Logged(t, "topics are not carried")
	askKeeper(t, one, "/purge?greeting")
	if !askKeeper(t, two, "/greeting") {
		t.Error("purged by one that is cut off")
	}
	w.Cut(false)
	purged()
}
