// Package browser runs a headless Chromium for tests.
package browser

import (
	"context"
	"os"
	"os/exec"
	"sync"
	"testing"

	"github.com/chromedp/chromedp"

	"github.com/lwango/lwango/internal/test/ci"
)

// chromium is the browser of all tests that run at a time. To start one takes a second of the
// processor.
var chromium struct {
	sync.Mutex
	users int
	ctx   context.Context
	end   func()
}

// Context is that of a Chromium, which ends with the last of the tests that use it. Each opens
// windows of its own. The test is for .ci/run alone.
func Context(t testing.TB) context.Context {
	t.Helper()
	ci.Only(t, "runs a browser")
	path, err := exec.LookPath("chromium")
	if err != nil {
		t.Fatal("chromium is not installed (Debian's package chromium)")
	}
	c := &chromium
	c.Lock()
	defer c.Unlock()
	if c.users == 0 {
		if c.ctx, c.end, err = start(path); err != nil {
			t.Fatal(err)
		}
	}
	c.users++
	t.Cleanup(func() {
		c.Lock()
		defer c.Unlock()
		if c.users--; c.users == 0 {
			c.end()
		}
	})
	return c.ctx
}

func start(path string) (_ context.Context, end func(), err error) {
	dir, err := os.MkdirTemp("", "browser")
	if err != nil {
		return nil, nil, err
	}
	options := []chromedp.ExecAllocatorOption{
		chromedp.ExecPath(path), chromedp.UserDataDir(dir), chromedp.Env("TMPDIR=" + dir),
	}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "ignore-certificate-errors", "disable-quic",
		"no-first-run",
		"disable-background-networking",
		"disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars",
		"disable-background-timer-throttling", "disable-renderer-backgrounding",
		"disable-backgrounding-occluded-windows",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, wait := chromedp.NewExecAllocator(context.Background(), options...)
	ctx, cancel := chromedp.NewContext(allocator)
	end = func() {
		cancel()
		wait() // until it has ended
		os.RemoveAll(dir)
	}
	if err := chromedp.Do(ctx); err != nil {
		end()
		return nil, nil, err
	}
	return ctx, end, nil
}
