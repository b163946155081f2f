package main

import (
	"context"
	"os"
	"path/filepath"
	"testing"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/lwango/lwango/internal/test/browser"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/wait"
)

// A person selects a file, sends it, sees how far it is and how long it takes, and that it has
// arrived. Then one that is too large, one that is canceled, and one that is dropped on the page.
func TestBrowser(t *testing.T) {
	dir, files := t.TempDir(), t.TempDir()
	body := random(3 << 20)
	small, large := filepath.Join(files, "holiday.jpg"), filepath.Join(files, "large.jpg")
	for path, body := range map[string][]byte{small: body, large: random(5 << 20)} {
		must.Do(t, os.WriteFile(path, body, 0o600))
	}
	s := program.Start(t, "-dir", dir, "-most", "4000000")

	w, cancel := chromedp.NewContext(browser.Context(t), chromedp.WithNewBrowserContext())
	defer cancel()
	must.Do(t, chromedp.Do(w))
	err := chromedp.Listen(w, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception in the page: %s", e.ExceptionDetails.Text)
		case *log.EventEntryAdded:
			if e.Entry.Level == log.EntryLevelError && e.Entry.Source == log.EntrySourceSecurity {
				t.Errorf("refused to the page: %s", e.Entry.Text)
			}
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	// The network is slow enough for events to come while the file is on its way.
	must.Get(chromedp.Call(w, network.Enable, network.EnableParams{}))(t)
	slow := func(rate float64) {
		t.Helper()
		_, err = chromedp.Call(w, network.EmulateNetworkConditionsByRule,
			network.EmulateNetworkConditionsByRuleParams{MatchedNetworkConditions: []*network.Conditions{
				{DownloadThroughput: -1, UploadThroughput: rate}}})
		if err != nil {
			t.Fatal(err)
		}
	}
	slow(2 << 20)
	do := func(steps ...chromedp.Action[chromedp.Void]) {
		t.Helper()
		ctx, cancel := context.WithTimeout(w, wait.Patience)
		defer cancel()
		must.Do(t, chromedp.Do(ctx, steps...))
	}
	until := func(expression string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(w, wait.Patience)
		defer cancel()
		if _, err := chromedp.Run(ctx, chromedp.Poll[bool](expression)); err != nil {
			page, _ := chromedp.Run(w, chromedp.Evaluate[string]("document.body.innerText"))
			t.Fatalf("%s: %v; the page says:\n%s", expression, err, page)
		}
	}
	do(chromedp.Navigate("http://"+s.Address+"/"), chromedp.WaitVisible("#send"))
	// What the bar has shown, between nothing and all.
	until(`(window.seen = [], new MutationObserver(() => {
		const bar = document.getElementById("bar");
		if (bar.value > 0 && bar.value < bar.max) seen.push(document.getElementById("state").textContent);
	}).observe(document.getElementById("bar"), {attributes: true}), true)`)
	do(chromedp.SetUploadFiles("#files", []string{small}), chromedp.Click("#send"))
	until(`document.getElementById("state").textContent === "Done."`)
	until(
		`seen.length > 0 && document.getElementById("bar").value === document.getElementById("bar").max`)
	until(`seen.some((text) => /^\d\.\d MB of 3\.1 MB, [\d.]+ .?B\/s, \d+ s left$/.test(text))`)
	until(`document.getElementById("stored").innerText === "holiday.jpg, 3.1 MB"`)
	has(t, dir, map[string][]byte{"holiday.jpg": body})

	do(chromedp.SetUploadFiles("#files", []string{large}), chromedp.Click("#send"))
	until(`document.getElementById("state").textContent.includes("too large: 4.0 MB are allowed")`)
	has(t, dir, map[string][]byte{"holiday.jpg": body})

	slow(50 << 10)
	do(chromedp.SetUploadFiles("#files", []string{small}), chromedp.Click("#send"))
	until(`document.getElementById("bar").value > 0`)
	do(chromedp.Click("#cancel"))
	until(`document.getElementById("state").textContent === "Canceled."`)
	wait.Until(t, "the file is gone", func() bool { return open(s.PID(), dir) == 0 })
	has(t, dir, map[string][]byte{"holiday.jpg": body})

	until(`(window.drag = (kind) => {
		const dataTransfer = new DataTransfer();
		dataTransfer.items.add(new File(["text"], "note.txt"));
		document.body.dispatchEvent(new DragEvent(kind, {dataTransfer, bubbles: true, cancelable: true}));
	}, drag("dragenter"), document.getElementById("drop").classList.contains("over"))`)
	until(`(drag("drop"), !document.getElementById("drop").classList.contains("over"))`)
	until(`document.getElementById("stored").innerText === "note.txt, 4 bytes"`)
	has(t, dir, map[string][]byte{"holiday.jpg": body, "note.txt": []byte("text")})
}
