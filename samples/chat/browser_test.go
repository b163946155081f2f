package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/lwango/lwango/internal/sampletest"
)

// browser is a headless Chromium with nothing remembered, which ends with the test.
func browser(t *testing.T) context.Context {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("LWANGO_CI") != "" {
			t.Fatal("chromium is not installed (Debian's package chromium)")
		}
		t.Skip("chromium is not installed (Debian's package chromium)")
	}
	options := []chromedp.ExecAllocatorOption{chromedp.ExecPath(path), chromedp.UserDataDir(t.TempDir())}
	for _, flag := range []string{
		"headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run", "disable-background-networking",
		"disable-component-update", "disable-sync", "disable-dev-shm-usage", "hide-scrollbars",
		"disable-background-timer-throttling", "disable-renderer-backgrounding", "disable-backgrounding-occluded-windows",
	} {
		options = append(options, chromedp.Flag(flag, true))
	}
	allocator, end := chromedp.NewExecAllocator(context.Background(), options...)
	t.Cleanup(end) // waits until it has ended
	ctx, cancel := chromedp.NewContext(allocator)
	t.Cleanup(cancel)
	if err := chromedp.Do(ctx); err != nil {
		t.Fatal(err)
	}
	return ctx
}

// tab is somebody's window: what one has in its storage another has not.
type tab struct {
	*testing.T
	ctx context.Context
}

// open opens a window. An exception in its scripts, or what its policy has forbidden, fails the test.
func open(t *testing.T, browser context.Context, width, height int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser, chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	w := &tab{t, ctx}
	if err := chromedp.Do(ctx, chromedp.EmulateViewport(width, height)); err != nil { // a limit would be the window's
		t.Fatal(err)
	}
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception in the page: %s", e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError && e.Entry.Source == log.EntrySourceSecurity {
				t.Errorf("refused to the page: %s", e.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.Fatal(err)
	}
}

// until waits until an expression is true.
func (w *tab) until(expression string, args ...any) {
	w.Helper()
	for i, arg := range args {
		text, _ := json.Marshal(arg)
		args[i] = string(text)
	}
	expression = fmt.Sprintf(expression, args...)
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression)); err != nil {
		page, _ := chromedp.Run(w.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		w.Fatalf("%s: %v; the page says:\n%s", expression, err, page)
	}
}

// join fills in what the page asks who comes for the first time.
func (w *tab) join(s *sampletest.Server, room, name string) {
	w.Helper()
	w.do(
		chromedp.Navigate("http://"+s.Address+"/?"+url.Values{"room": {room}}.Encode()),
		chromedp.WaitVisible("#enter"),
		chromedp.SendKeys("#name", name+"\r"),
	)
	w.until(`document.getElementById("status").dataset.state === "open" && document.getElementById("me").textContent === %s`, name)
}

func (w *tab) say(text string) {
	w.Helper()
	w.do(chromedp.SendKeys("#text", text+"\r"))
}

// sees waits until somebody has said something, once.
func (w *tab) sees(text string) {
	w.Helper()
	w.until(`[...document.querySelectorAll(".message > .text")].filter((e) => e.textContent === %s).length === 1`, text)
}

func (w *tab) dark() {
	w.Helper()
	scheme := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: "dark"}}}
	if _, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, scheme); err != nil {
		w.Fatal(err)
	}
}

// TestScreenshots is for whoever changes the page: it leaves pictures in the folder that LWANGO_SCREENSHOTS names.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("LWANGO_SCREENSHOTS")
	if folder == "" {
		t.Skip("LWANGO_SCREENSHOTS names no folder")
	}
	s := sampletest.Start(t)
	b := browser(t)
	ann := open(t, b, 1200, 800)
	shoot := func(w *tab, name string) {
		picture, err := chromedp.Run(w.ctx, chromedp.CaptureScreenshot())
		if err == nil {
			err = os.WriteFile(filepath.Join(folder, name+".png"), picture, 0o644)
		}
		if err != nil {
			t.Error(err)
		}
	}
	ann.do(chromedp.Navigate("http://"+s.Address+"/?room=garden"), chromedp.WaitVisible("#enter"))
	shoot(ann, "enter")
	ann.join(s, "garden", "Ann")
	shoot(ann, "empty")
	bob := open(t, b, 390, 800)
	bob.join(s, "garden", "Bob")
	zoe := open(t, b, 390, 800)
	zoe.join(s, "garden", "Zoë")
	zoe.dark()
	li := open(t, b, 1200, 800)
	li.join(s, "garden", "李小龍")
	li.dark()
	for _, line := range []struct {
		who  *tab
		text string
	}{
		{bob, "Morning! Did anybody water the tomatoes yesterday?"},
		{zoe, "I did, around seven. The two in the corner look a bit sad though 🍅"},
		{ann, "Thanks Zoë!"},
		{ann, "I have put some of the old compost there on Sunday, let's see whether that helps. If not we could move them to the south wall, there is still room beside the beans."},
		{li, "There is a good page about that: https://example.org/tomatoes?sad=yes (see the part on magnesium)."},
		{li, "And it says: <b>do not water at noon</b>"},
		{bob, "Understood 👍"},
		{zoe, "Who comes on Saturday? I bring cake."},
		{ann, "Me!"},
	} {
		line.who.say(line.text)
		ann.sees(line.text)
	}
	bob.do(chromedp.SendKeys("#text", "Let me see"))
	for _, w := range []*tab{ann, zoe, li} {
		w.sees("Me!")
		w.until(`document.getElementById("typing").textContent !== ""`)
	}
	shoot(ann, "desktop-light")
	shoot(li, "desktop-dark")
	shoot(bob, "phone-light")
	shoot(zoe, "phone-dark")
	zoe.do(chromedp.Click("#menu"))
	time.Sleep(400 * time.Millisecond)
	shoot(zoe, "phone-dark-side")
	s.Kill(t)
	for _, w := range []*tab{ann, bob} {
		w.until(`document.getElementById("status").dataset.state === "waiting"`)
	}
	shoot(ann, "desktop-lost")
	shoot(bob, "phone-lost")
}
