package server_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
)

// TestLimitOfTwoServers: what passes at one server counts at the other, if a broker connects them;
// while it is away, each counts by itself and nothing waits.
func TestLimitOfTwoServers(t *testing.T) {
	b := broker.Start(t)
	leak.Goroutines(t)
	text := fmt.Sprintf("threads = 1\n[pubsub]\nurl = %q\n", b.URL()) + route(`prefix = "/"
handler = "echo"
limit = { requests = "1000/h", by = "{host}", shared = "of all" }
`)
	start := func() *running {
		s := source()
		s.Topics, s.Limits = new(pubsub.Hub), new(limit.Store)
		return serve(t, s, text)
	}
	one, two := start(), start()
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	ask := func(s *running, host string) int {
		req := must.Get(http.NewRequest("GET", "http://"+s.at+"/", nil))(t)
		req.Host = host
		resp := must.Get(client.Do(req))(t)
		resp.Body.Close()
		return resp.StatusCode
	}
	for i := range 1000 {
		if got := ask(one, "a"); got != 200 {
			t.Fatalf("request %d: %d", i, got)
		}
	}
	wait.Until(t, "the other one has counted them", func() bool { return ask(two, "a") == 429 })
	if got := ask(two, "b"); got != 200 {
		t.Errorf("another key: %d", got)
	}
	b.Kill()
	for _, s := range []*running{one, two} {
		if got := ask(s, "c"); got != 200 {
			t.Errorf("without the broker: %d", got)
		}
	}
	one.end()
	two.end()
}
