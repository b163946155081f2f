package pages_test

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
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

// little is a server that has just begun.
func little() *metrics.Snapshot {
	return &metrics.Snapshot{Version: "v1", Time: time.Now(), Loops: []metrics.Loop{{Answered: true}},
		Routes: []metrics.Route{}, Upstreams: []metrics.Upstream{}, Streams: []metrics.Stream{},
		Handlers: []metrics.Counted{}, Stalls: []metrics.Stall{},
		Topics: metrics.Topics{Largest: []metrics.Topic{}}}
}

// quiet is a server that has had no request in the last minute, and has modules that count.
func quiet() *metrics.Snapshot {
	s, ago := little(), little()
	s.Routes = []metrics.Route{{Site: "*", Route: "/", Status: [6]int64{2: 7}, Times: []int64{7},
		Cache: map[string]int64{"hit": 7}}}
	s.Cache = new(metrics.Cache)
	ago.Routes, ago.Cache = s.Routes, s.Cache
	s.Uptime, ago.Uptime = 100, 40
	s.MinuteAgo = ago
	return s
}

// much is a server with all that the page shows, most of it since a minute ago.
func much() *metrics.Snapshot {
	const site, long = "www.shop.example.org", "/application/orders/archive/by-customer"
	samples := func(v float64) (s []float64) {
		for i := range 60 {
			s = append(s, v+float64(i%7))
		}
		s[20] = metrics.Unknown
		return s
	}
	times, late := make([]int64, metrics.TimeBounds+1), make([]int64, metrics.TimeBounds+1)
	times[4], late[4], late[metrics.TimeBounds] = 4000, 10, 1
	s := little()
	s.Uptime, s.PID = 90061, 4294967
	s.Connections = metrics.Connections{Open: 1000000, Idle: 999000, Busy: 1000, Refusing: 3,
		Hijacked: 5, HTTP2: 7, FailedHandshakes: 8}
	s.Requests = metrics.Requests{Total: 1234567, Errors: 60, Panics: 1, Sent: 1 << 40}
	s.Loops = []metrics.Loop{{Answered: true, Age: 90000, Busy: 50, Stalls: 3}, {Loop: 1}}
	s.Routes = []metrics.Route{
		{Site: site, Route: "/", Status: [6]int64{2: 1000000}, Times: times},
		{Site: site, Route: long, Status: [6]int64{2: 60, 4: 3, 5: 60}, Times: late, Spent: 3,
			Cache: map[string]int64{"hit": 4711, "miss": 3}},
		{Site: site, Route: "/unused", Status: [6]int64{2: 7}, Times: times}}
	s.Routes[1].Codes = map[string]int64{"200": 60, "404": 3, "502": 58, "504": 2}
	s.Process = metrics.Process{CPU: 90, Resident: 1 << 28, OpenFiles: 990, MaxFiles: 1024}
	s.Reload = metrics.Reload{Configured: time.Now(), Last: time.Now(),
		Error: "/etc/lwango/conf.d/shop.conf:12: route: prefix: missing"}
	s.Logs = metrics.Logs{Access: 12, Error: 3}
	s.Refusals = map[string]int64{"max_connections": 17, "slow": 4}
	s.Draining = []metrics.Draining{{PID: 4294960, Since: time.Now(), Until: time.Now(),
		Connections: 12}}
	s.Cache = &metrics.Cache{MemoryObjects: 31, DiskBytes: 2048, Damaged: 7}
	s.Upstreams = []metrics.Upstream{
		{Site: site, Route: long, Address: "app-1.backend.internal.example.org:8080", Up: true,
			State: "drain"},
		{Site: site, Route: long, Address: "app-2.backend.internal.example.org:8080", Times: times},
		{Site: site, Route: "/", Address: "app-2.backend.internal.example.org:8080", Times: times}}
	s.Streams = []metrics.Stream{{Address: "*:5432", Open: 3, Accepted: 12, Refused: 4, Failed: 5}}
	s.Handlers = []metrics.Counted{{Kind: "mirror", Site: site, Route: long, Of: "/next",
		Counts: []metrics.Count{{Name: "requests", Value: 7}, {Name: "dropped_busy", Value: 8}}}}
	s.Certificates = []metrics.Certificate{{Names: []string{site, "mail.example.org"},
		Until: time.Now().Add(100 * time.Hour), WarnFrom: time.Now().Add(-time.Hour)},
		{Names: []string{"new.example.org"}}}
	s.Topics = metrics.Topics{Count: 1, Subscribers: 2, Bytes: 3, Largest: []metrics.Topic{
		{Name: "prices.of.all.products", Subscribers: 2, Messages: 1, Bytes: 3}}}
	s.Stalls = []metrics.Stall{{Since: time.Now(), Held: 0.25,
		Place: "github.com/example/application/internal/orders.compute orders.go:3"}}
	s.Recent = &metrics.Recent{Interval: 5, Requests: samples(20000), Errors: samples(1),
		P99: samples(0.004), Connections: samples(999990)}
	ago := little()
	ago.Uptime = s.Uptime - 60
	ago.Loops = []metrics.Loop{{Answered: true, Age: 89940, Busy: 5}, {Loop: 1, Answered: true}}
	ago.Routes = []metrics.Route{s.Routes[2]}
	s.MinuteAgo = ago
	return s
}

// The faults of a page, as scripts that list them.
const (
	tooWide = `[...document.querySelectorAll("body *")].filter((e) => !e.closest("thead, svg") &&
		(e.getBoundingClientRect().right > innerWidth || e.scrollWidth > e.clientWidth + 1 &&
		getComputedStyle(e).display !== "inline")).map((e) => e.outerHTML.slice(0, 200))`
	emptySections = `[...document.querySelectorAll("main section")].filter((s) => ![...s.querySelectorAll(
		"tbody td:not(:empty), dd:not(:empty)")].length).map((s) => s.outerHTML.slice(0, 200))`
	// A word is what stands between spaces, or ends with a mark behind which the page lets it break.
	brokenWords = `(() => {
		const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let n; n = walk.nextNode();) {
			if (n.parentElement.closest("thead, title, script, noscript")) continue;
			for (const m of n.data.matchAll(/\S+/g)) {
				const r = document.createRange();
				r.setStart(n, m.index);
				r.setEnd(n, m.index + m[0].length);
				if (new Set([...r.getClientRects()].map((b) => Math.round(b.top))).size > 1 &&
					!/[-\u2013/]/.test(m[0])) found.push(m[0]);
			}
		}
		return found;
	})()`
	// Text needs a contrast of 4.5 (WCAG 2.2, 1.4.3).
	paleTexts = `(() => {
		const light = (c) => c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
			.reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
		const numbers = (c) => c.match(/[0-9.]+/g).map(Number);
		const found = [], walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
		for (let n; n = walk.nextNode();) {
			let e = n.parentElement, back;
			if (!n.data.trim() || e.closest("svg, script, noscript")) continue;
			const text = numbers(getComputedStyle(e).color);
			for (; e; e = e.parentElement) {
				back = numbers(getComputedStyle(e).backgroundColor);
				if (back[3] !== 0) break;
			}
			const [a, b] = [light(text.slice(0, 3)), light(back.slice(0, 3))].sort((a, b) => b - a);
			if ((a + 0.05) / (b + 0.05) < 4.5) found.push(n.data + ": " + text + " on " + back);
		}
		return found;
	})()`
)

// TestStatusPage: the page shows what is to be seen and no empty section, on a large screen and on
// that of a telephone, where nothing is wider than it and no word is broken. It does nothing that
// its Content-Security-Policy forbids, and throws nothing.
func TestStatusPage(t *testing.T) {
	for _, c := range []struct {
		name string
		take func() *metrics.Snapshot
		want []string // texts
		none []string
	}{
		{"little", little, []string{"Loops"}, []string{"Routes", "Upstreams", "Cache", "Streams", "Topics",
			"Certificates", "Stalls", "undefined", "NaN"}},
		{"quiet", quiet, []string{"Cache", "Server", "0 answers"}, []string{"Routes",
			"Upstreams", "Streams", "undefined", "NaN"}},
		{"much", much, []string{"Routes", "4,711", "31 answers", "2.0 KiB", "drained", "failed", "held up",
			"20,576", "> 17 s", "49\u00a0%, 502:\u00a058, 504:\u00a02", "Replaced processes", "lost lines of the log",
			"of 1,024", "refused: max_connections", "Mirror", "Topics", "Certificates", "Stalls",
			"1 other had no request", "Upstream app-2.backend.internal.example.org:8080 has failed."},
			[]string{"/unused", "undefined", "NaN"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			ctx, cancel := chromedp.NewContext(browser.Context(t), chromedp.WithNewBrowserContext())
			defer cancel()
			h := must.Get(status.New(status.Settings{}, handlers.Env{Prefix: "/",
				Process: around.In(around.Context{Process: counting{
					count: func() (*metrics.Snapshot, error) {
						s := c.take()
						s.Warn()
						return s, nil
					}}})}))(t)
			s := server.Start(t, modes.Direct, conn.Config{Handler: h})
			var mu sync.Mutex
			var faults []string
			must.Do(t, chromedp.Listen(ctx, func(event any) {
				mu.Lock()
				defer mu.Unlock()
				switch e := event.(type) {
				case *runtime.EventExceptionThrown:
					faults = append(faults, e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
				case *log.EventEntryAdded:
					faults = append(faults, e.Entry.Text)
				}
			}))
			must.Do(t, chromedp.Do(ctx, chromedp.EmulateViewport(1280, 800),
				chromedp.Navigate("http://"+s.Addr+"/"), chromedp.WaitVisible("main table")))
			for _, width := range []int64{1280, 900, 861, 860, 420, 360} {
				must.Do(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, 800)))
				for what, script := range map[string]string{"wider than its place": tooWide,
					"empty": emptySections, "broken": brokenWords} {
					found := must.Get(chromedp.Run(ctx, chromedp.Evaluate[[]string](script)))(t)
					if len(found) > 0 {
						t.Errorf("%d px: %s: %q", width, what, found)
					}
				}
			}
			for _, theme := range []string{"light", "dark"} {
				_ = must.Get(chromedp.Call(ctx, emulation.SetEmulatedMedia,
					emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
						{Name: "prefers-color-scheme", Value: theme}}}))(t)
				found := must.Get(chromedp.Run(ctx, chromedp.Evaluate[[]string](paleTexts)))(t)
				if len(found) > 0 {
					t.Errorf("%s: too pale: %q", theme, found)
				}
			}
			text := must.Get(chromedp.Run(ctx, chromedp.Text("body")))(t)
			for _, want := range c.want {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in\n%s", want, text)
				}
			}
			for _, none := range c.none {
				if strings.Contains(text, none) {
					t.Errorf("%q in\n%s", none, text)
				}
			}
			if said := must.Get(chromedp.Run(ctx, chromedp.Text("#error")))(t); said != "" {
				t.Error(said)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(faults) > 0 {
				t.Errorf("the browser complains: %q", faults)
			}
		})
	}
}
