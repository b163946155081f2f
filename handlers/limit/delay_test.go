package limit_test

import (
	"bytes"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/limit"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestDelay: beyond the burst requests wait for their turn, one behind the other, and beyond those
// that may wait they are refused.
func TestDelay(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		const part = 100 * time.Millisecond
		s := module.Start(t, m, "/", wrap(t, limit.Settings{Requests: rate(t, "10/s"), Burst: 1,
			Delay: 2}, hello))
		began := time.Now()
		statuses := make([]int, 4)
		var all sync.WaitGroup
		for i := range statuses {
			c := s.Dial()
			all.Go(func() { statuses[i] = c.Do("GET", "GET / HTTP/1.1\r\nHost: a\r\n\r\n").StatusCode })
		}
		all.Wait()
		passed := 0
		for _, status := range statuses {
			if status == 200 {
				passed++
			}
		}
		// On a busy machine the last one may come when another part of the time is over.
		took := time.Since(began)
		if passed < 3 || passed == 4 && took < 3*part {
			t.Errorf("%v, in %v", statuses, took)
		}
		if took < 2*part-10*time.Millisecond {
			t.Errorf("the third has waited for %v", took)
		}
	}, modes.Plain, modes.Direct)
}

// TestDelayedLeaves: a client that leaves does not wait any more.
func TestDelayedLeaves(t *testing.T) {
	served := make(chan string, 3)
	s := module.Start(t, modes.Plain, "/", wrap(t, limit.Settings{Requests: rate(t, "1/m"), Burst: 1,
		Delay: 1}, func(req *conn.Request, _ *conn.Response) int {
		served <- req.Path()
		return 204
	}))
	s.Request("GET /first", nil, "")
	c := s.Dial()
	c.Send("GET /second HTTP/1.1\r\nHost: a\r\n\r\n")
	wait.Until(t, "the second waits", func() bool {
		return s.Request("GET /third", nil, "").StatusCode == 429
	})
	c.Close()
	s.Idle()
	if got := <-served; got != "/first" || len(served) > 0 {
		t.Errorf("served %s and %d more", got, len(served))
	}
}

// TestEverybody: all clients are one.
func TestEverybody(t *testing.T) {
	h := wrap(t, limit.Settings{Requests: rate(t, "3/h"), By: "everybody"}, hello)
	s := module.Start(t, modes.OverUNIX, "/", h)
	other := module.Start(t, modes.Plain, "/", h)
	if a, b := statuses(s, 2, "GET /"), statuses(other, 2, "GET /"); a != "200 200" || b != "200 429" {
		t.Errorf("%s, then %s", a, b)
	}
}

// TestFields: draft-ietf-httpapi-ratelimit-headers-10.
func TestFields(t *testing.T) {
	m := must.Get(limit.New(limit.Settings{Requests: rate(t, "60/h"), Burst: 3, Fields: true},
		handlers.Env{Prefix: "/login"}))(t)
	s := module.Start(t, modes.Plain, "/", m(hello))
	for i, want := range []string{`"/login 60/h";r=2;t=60`, `"/login 60/h";r=1;t=120`,
		`"/login 60/h";r=0;t=180`, `"/login 60/h";r=0;t=180`} {
		a := s.Request("GET /", nil, "")
		if got := a.Header.Get("RateLimit"); got != want {
			t.Errorf("request %d: %s, %s, want %s", i, a.Status, got, want)
		}
		if got := a.Header.Get("RateLimit-Policy"); got != `"/login 60/h";q=60;w=3600` {
			t.Errorf("request %d: policy %s", i, got)
		}
	}
}

// TestDryRun: nothing is refused, and the log says what would have been, at most once a second.
func TestDryRun(t *testing.T) {
	var log bytes.Buffer
	m := must.Get(limit.New(limit.Settings{Requests: rate(t, "1/h"), Delay: 0, Connections: 1,
		DryRun: true}, handlers.Env{Logger: slog.New(slog.NewTextHandler(&log, nil))}))(t)
	s := module.Start(t, modes.Plain, "/", m(hello))
	if got := statuses(s, 4, "GET /x"); got != "200 200 200 200" {
		t.Error(got)
	}
	s.Idle()
	const want = `msg="limit: a dry run lets a request pass" key=requests client=127.0.0.1 request_id=`
	if n := strings.Count(log.String(), want); n < 1 || n > 3 {
		t.Errorf("%d lines:\n%s", n, &log)
	}
}

// TestBandwidthAfter: the first bytes go out at once, and the others at the rate.
func TestBandwidthAfter(t *testing.T) {
	modes.Run(t, func(t *testing.T, m modes.Mode) {
		const free = 1 << 20
		body := bytes.Repeat([]byte("0123456789abcdef"), (free+10<<10)/16)
		s := module.Start(t, m, "/", wrap(t, limit.Settings{Bandwidth: 20 << 10, BandwidthAfter: free},
			func(req *conn.Request, resp *conn.Response) int {
				if req.Path() == "/less" {
					body := body[:free*3/4]
					resp.SetBody(body)
				} else {
					resp.SetBody(body)
				}
				return 200
			}))
		// At the rate alone this would take 40 seconds, which is more than the test's patience.
		if a := s.Request("GET /less", nil, ""); len(a.Text) != free*3/4 {
			t.Errorf("%d bytes", len(a.Text))
		}
		began := time.Now()
		a := s.Request("GET /", nil, "")
		if took := time.Since(began); a.Text != string(body) || took < 250*time.Millisecond {
			t.Errorf("%d bytes after %v", len(a.Text), took)
		}
	}, modes.Plain, modes.Direct)
}

// TestShared: what has passed in one process counts in the other, for addresses, texts and
// everybody; a text that is malformed does no harm, and counts go on over a reload.
func TestShared(t *testing.T) {
	for _, by := range []string{"address", "everybody", "{field.X-Key}"} {
		var one, two limit.Store
		start := func(store *limit.Store) (*limit.Names, func() string) {
			names := store.Begin(true)
			s := module.Start(t, modes.Plain, "/", wrap(t, limit.Settings{Requests: rate(t, "5/h"),
				By: by, Shared: "x", Names: names}, hello))
			return names, func() string { return statuses(s, 1, "GET /", "X-Key: k") }
		}
		namesOne, askOne := start(&one)
		namesTwo, askTwo := start(&two)
		namesOne.Use()
		namesTwo.Use()
		for range 3 {
			askOne()
		}
		askTwo()
		var texts [][]byte
		one.Flush(func(text []byte) { texts = append(texts, text) })
		one.Flush(func([]byte) { t.Error("told twice") })
		if len(texts) != 1 {
			t.Fatalf("%s: %d texts", by, len(texts))
		}
		for n := range texts[0] {
			two.Apply(texts[0][:n])
		}
		two.Apply(append([]byte{255, 255}, texts[0]...))
		two.Apply(texts[0])
		_, again := start(&two)
		if got := askTwo() + " " + again(); got != "200 429" {
			t.Errorf("%s: %s", by, got)
		}
	}
}

func TestSharedErrors(t *testing.T) {
	var store limit.Store
	set := limit.Settings{Requests: rate(t, "5/h"), Shared: "x", Names: store.Begin(true)}
	must.Get(limit.New(set, handlers.Env{}))(t)
	must.Get(limit.New(set, handlers.Env{}))(t)
	set.Burst = 7
	_, err := limit.New(set, handlers.Env{})
	const want = `shared: another limit of the name "x" is 5/h, 5 at once, by ""; ` +
		`this one is 5/h, 7 at once, by ""`
	if err == nil || err.Error() != want {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	set.Names = store.Begin(false)
	_, err = limit.New(set, handlers.Env{})
	if err == nil || !strings.HasPrefix(err.Error(), "shared: needs the key url of [pubsub]") {
		t.Error(err)
	}
}
