package server_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// keeping is a server with a cache of its own, as another process would be.
type keeping struct {
	*running
	store *cache.Store
}

// hit asks the server, and reports whether the answer is one that it has kept.
func (k *keeping) hit(t *testing.T) bool { return k.ask(t, "/", "") }

// finds is hit for an answer that is not made if there is none.
func (k *keeping) finds(t *testing.T, path string) bool { return k.ask(t, path, "only-if-cached") }

func (k *keeping) ask(t *testing.T, path, control string) (hit bool) {
	t.Helper()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	req := must.Get(http.NewRequest("GET", "http://"+k.at+path, nil))(t)
	req.Host = "kept.example" // a server that starts anew has another port
	req.Header.Set("Cache-Control", control)
	resp := must.Get(client.Do(req))(t)
	defer resp.Body.Close()
	return strings.Contains(resp.Header.Get("Cache-Status"), "; hit")
}

// startKeeping starts a server that keeps what its one route answers.
func startKeeping(t *testing.T, hub *pubsub.Hub, more string) *keeping {
	t.Helper()
	k := &keeping{store: cache.NewStore()}
	t.Cleanup(k.store.Close)
	s := source()
	s.Topics, s.Cache = hub, k.store
	k.running = serve(t, s, keepingText(more))
	return k
}

// keepingText is its configuration.
func keepingText(more string) string {
	return "threads = 1\n" + more + `
[[site]]
[[site.route]]
prefix = "/"
module = "response"
body = "` + strings.Repeat("hello ", 20<<10) + `"
headers = { cache-tag = "greeting" }
cache = { ttl = { 200 = "1h" } }
[[site.route]]
prefix = "/other"
module = "response"
body = "` + strings.Repeat("other ", 20<<10) + `"
cache = { ttl = { 200 = "1h" } }
`
}

// TestPurgeOfTwoServers: what one server purges, the other one does as well, if a broker connects
// them.
func TestPurgeOfTwoServers(t *testing.T) {
	b := broker.Start(t)
	leak.Goroutines(t)
	var hubs [3]pubsub.Hub
	more := fmt.Sprintf("[pubsub]\nurl = %q\n", b.URL())
	one, two := startKeeping(t, &hubs[0], more), startKeeping(t, &hubs[1], more)
	alone := startKeeping(t, new(pubsub.Hub), "")
	for _, k := range []*keeping{one, two, alone} {
		k.hit(t)
		if !k.hit(t) {
			t.Error("nothing is kept")
		}
	}
	if err := one.store.Purge(cache.Purge{Tags: []string{"another"}}); err != nil {
		t.Error(err)
	}
	if err := one.store.Purge(cache.Purge{Tags: []string{"greeting"}}); err != nil {
		t.Error(err)
	}
	if one.hit(t) {
		t.Error("its own purge has no effect")
	}
	wait.Until(t, "the other one purges", func() bool { return !two.hit(t) })
	if !two.hit(t) || !one.hit(t) {
		t.Error("one purge takes effect twice")
	}
	if !alone.hit(t) {
		t.Error("a server without the broker has purged")
	}
	one.end()
	two.end()
}

// TestPurgeBeforeStart: a server finds on disk what others have purged while it did not run, and
// purges it.
func TestPurgeBeforeStart(t *testing.T) {
	b := broker.Start(t)
	leak.Goroutines(t)
	more := fmt.Sprintf("[pubsub]\nurl = %q\n", b.URL())
	disk := more + fmt.Sprintf("[cache]\ndisk = %q\n", t.TempDir())
	kept := startKeeping(t, new(pubsub.Hub), disk)
	kept.ask(t, "/", "")
	kept.ask(t, "/other/", "")
	wait.Until(t, "both are kept", func() bool {
		return kept.finds(t, "/") && kept.finds(t, "/other/")
	})
	kept.end()
	kept.store.Close()

	other := startKeeping(t, new(pubsub.Hub), more)
	if err := other.store.Purge(cache.Purge{Tags: []string{"greeting"}}); err != nil {
		t.Error(err)
	}
	other.end() // which sends what is still to be sent
	kept = startKeeping(t, new(pubsub.Hub), disk)
	wait.Until(t, "what was not purged is found", func() bool { return kept.finds(t, "/other/") })
	wait.Until(t, "what was purged is not", func() bool { return !kept.finds(t, "/") })
	kept.end()
}

// TestChangeOfTwoServers: what a POST to one server changes, the other one forgets as well. A
// server that starts later does not hear of it.
func TestChangeOfTwoServers(t *testing.T) {
	b := broker.Start(t)
	leak.Goroutines(t)
	var hubs [3]pubsub.Hub
	more := fmt.Sprintf("[pubsub]\nurl = %q\n", b.URL())
	one, two := startKeeping(t, &hubs[0], more), startKeeping(t, &hubs[1], more)
	alone := startKeeping(t, new(pubsub.Hub), "")
	for _, k := range []*keeping{one, two, alone} {
		k.hit(t)
		k.ask(t, "/other/", "")
	}
	req := must.Get(http.NewRequest("POST", "http://"+one.at+"/", nil))(t)
	req.Host = "kept.example"
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	must.Get(client.Do(req))(t).Body.Close()
	if one.finds(t, "/") {
		t.Error("the change has no effect where it was made")
	}
	wait.Until(t, "the other one forgets", func() bool { return !two.finds(t, "/") })
	for _, k := range []*keeping{one, two, alone} {
		if !k.finds(t, "/other/") {
			t.Error("another page is gone")
		}
	}
	if !alone.finds(t, "/") {
		t.Error("a server without the broker has forgotten")
	}
	two.end()
	two = startKeeping(t, &hubs[2], more)
	two.hit(t)
	if !two.hit(t) {
		t.Error("an old change has an effect on a new server")
	}
	one.end()
	two.end()
}
