package pages_test

import (
	"strings"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/status"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/browser"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// counting is a server that tells of itself.
type counting struct {
	around.None
	count func() (*metrics.Snapshot, error)
}

func (c counting) Count() func() (*metrics.Snapshot, error) { return c.count }

// TestStatusPage: a browser shows the cache and the states of upstreams, and on the screen of a
// telephone it breaks no name into pieces of some letters.
func TestStatusPage(t *testing.T) {
	ctx, cancel := chromedp.NewContext(browser.Context(t), chromedp.WithNewBrowserContext())
	defer cancel()
	h := must.Get(status.New(status.Settings{}, handlers.Env{Prefix: "/",
		Process: around.In(around.Context{Process: counting{count: func() (*metrics.Snapshot, error) {
			return &metrics.Snapshot{Version: "v1", Loops: []metrics.Loop{}, Streams: []metrics.Stream{},
				Handlers: []metrics.Counted{}, Stalls: []metrics.Stall{}, Certificates: []metrics.Certificate{},
				Topics: metrics.Topics{Largest: []metrics.Topic{}},
				Cache:  &metrics.Cache{MemoryObjects: 31, DiskBytes: 2048, Damaged: 7},
				Routes: []metrics.Route{{Site: "www.example.org", Route: "/application", Times: []int64{1},
					Cache: map[string]int64{"hit": 4711, "miss": 3}}},
				Upstreams: []metrics.Upstream{
					{Site: "www.example.org", Route: "/application", Address: "app.internal:8080", Up: true,
						State: "drain"},
					{Site: "www.example.org", Route: "/application", Address: "other.internal:8080"}},
			}, nil
		}}})}))(t)
	s := server.Start(t, modes.Direct, conn.Config{Handler: h})
	must.Do(t,
		chromedp.Do(ctx, chromedp.EmulateViewport(420, 800), chromedp.Navigate("http://"+s.Addr+"/"),
			chromedp.WaitVisible("main table")))
	text := must.Get(chromedp.Run(ctx, chromedp.Text("main")))(t)
	for _, want := range []string{"4,711", "31", "2.0 KiB", "drained", "failed"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	lines := must.Get(chromedp.Run(ctx,
		chromedp.Evaluate[[]string](`[...document.querySelectorAll("td")].filter(
		(c) => c.getClientRects()[0].height > 60).map((c) => c.textContent)`)))(t)
	wide := must.Get(chromedp.Run(ctx,
		chromedp.Evaluate[float64](`document.documentElement.scrollWidth`)))(t)
	if len(lines) > 0 || wide > 420 {
		t.Errorf("cells of three lines and more: %q; the page is %v wide", lines, wide)
	}
}
