package editor_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/chromedp"

	"github.com/lwango/lwango/internal/test/browser"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// maxScripts is how much of the editor's scripts may go over the network when nothing is cached:
// 1.3 MB of 4.2. Each version of WordPress has more of them.
const maxScripts = 1.3 / 4.2

// TestEditor opens the editor in a browser, and counts what that takes from the server.
func TestEditor(t *testing.T) {
	base := os.Getenv("LWANGO_EDITOR")
	if base == "" {
		t.Skip("part of TestWordPress in fastcgi")
	}
	var cookies []*http.Cookie
	must.Do(t, json.Unmarshal([]byte(os.Getenv("LWANGO_EDITOR_COOKIES")), &cookies))
	ctx, cancel := chromedp.NewContext(browser.Context(t), chromedp.WithNewBrowserContext())
	defer cancel()
	must.Do(t, chromedp.Do(ctx, chromedp.EmulateViewport(1200, 900)))
	admin := base + "/wp-admin/"
	for _, cookie := range cookies {
		if _, err := chromedp.Call(ctx, network.SetCookie, network.SetCookieParams{
			Name: cookie.Name, Value: cookie.Value, URL: admin}); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		url, kind, coding string
		bytes, plain      int // over the network, with the head; of the body, decoded
	}
	var (
		mu      sync.Mutex
		open    = make(map[network.RequestID]bool)
		answers = make(map[network.RequestID]*answer)
		failed  []string
	)
	err := chromedp.Listen(ctx, func(event any) {
		mu.Lock()
		defer mu.Unlock()
		switch e := event.(type) {
		case *network.EventRequestWillBeSent:
			open[e.RequestID] = true
		case *network.EventResponseReceived:
			a := &answer{url: e.Response.URL, kind: e.Response.MimeType}
			for name, value := range e.Response.Headers {
				if strings.EqualFold(name, "Content-Encoding") {
					a.coding = fmt.Sprint(value)
				}
			}
			if answers[e.RequestID] = a; e.Response.Status >= 400 {
				failed = append(failed, fmt.Sprint(e.Response.Status, " ", e.Response.URL))
			}
		case *network.EventDataReceived:
			if a := answers[e.RequestID]; a != nil {
				a.plain += int(e.DataLength)
			}
		case *network.EventLoadingFinished:
			delete(open, e.RequestID)
			if a := answers[e.RequestID]; a != nil {
				a.bytes = int(e.EncodedDataLength)
			}
		case *network.EventLoadingFailed:
			delete(open, e.RequestID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	limited, stop := context.WithTimeout(ctx, wait.Patience)
	defer stop()
	must.Do(t, chromedp.Do(limited, chromedp.Navigate(admin+"post-new.php")))
	const shown = `!!document.querySelector(".block-editor-writing-flow, [name=editor-canvas]")`
	if _, err := chromedp.Run(limited, chromedp.Poll[bool](shown)); err != nil {
		text, _ := chromedp.Run(ctx, chromedp.Evaluate[string]("document.body.innerText"))
		t.Fatalf("no editor: %v; the page says %.1000s", err, text)
	}
	wait.Until(t, "all is loaded", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(open) == 0
	})

	mu.Lock()
	defer mu.Unlock()
	for _, what := range failed {
		if strings.Contains(what, base) {
			t.Error(what)
		}
	}
	var list []*answer
	var all, scripts answer
	for _, a := range answers {
		if !strings.HasPrefix(a.url, base) {
			continue
		}
		list = append(list, a)
		all.bytes, all.plain = all.bytes+a.bytes, all.plain+a.plain
		if strings.HasSuffix(a.kind, "/javascript") {
			scripts.bytes, scripts.plain = scripts.bytes+a.bytes, scripts.plain+a.plain
		}
		if a.coding == "" && a.plain > 2000 && !strings.HasPrefix(a.kind, "image/") {
			t.Errorf("%s: %d bytes of %s are not compressed", a.url, a.plain, a.kind)
		}
	}
	slices.SortFunc(list, func(a, b *answer) int { return b.bytes - a.bytes })
	for _, a := range list[:min(10, len(list))] {
		t.Logf("%7d of %7d %-5s %s %.120s", a.bytes, a.plain, a.coding, a.kind, a.url)
	}
	t.Logf("%d bytes of %d in %d answers; %d of %d are scripts", all.bytes, all.plain, len(list),
		scripts.bytes, scripts.plain)
	if scripts.plain < 1_000_000 || float64(scripts.bytes) > maxScripts*float64(scripts.plain) {
		t.Errorf("%d bytes of scripts for %d", scripts.bytes, scripts.plain)
	}
}
