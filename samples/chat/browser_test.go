package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/chromedp/cdproto/log"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/chromedp"
	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/browser"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
)

// atEnd is an expression: the list of messages is scrolled to its end.
const atEnd = `(({scrollHeight, scrollTop, clientHeight}) =>
	scrollHeight - scrollTop - clientHeight < 2)($("log"))`

// tab is one person's window, with a storage of its own.
type tab struct {
	*testing.T
	ctx context.Context
}

// open opens a window. An exception in its scripts, or what its policy has forbidden, fails the
// test.
func open(t *testing.T, width, height int64) *tab {
	t.Helper()
	ctx, cancel := chromedp.NewContext(browser.Context(t), chromedp.WithNewBrowserContext())
	t.Cleanup(cancel)
	w := &tab{t, ctx}
	// No time limit: chromedp would apply it to the whole life of the window.
	must.Do(t, chromedp.Do(ctx, chromedp.EmulateViewport(width, height)))
	err := chromedp.Listen(ctx, func(event any) {
		switch e := event.(type) {
		case *runtime.EventExceptionThrown:
			t.Errorf("exception in the page: %s",
				e.ExceptionDetails.Text+" "+e.ExceptionDetails.Exception.Description)
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

// visit starts a server, and opens a window in which Ann is in its room r.
func visit(t *testing.T, width, height int64) (*tab, *program.Server) {
	t.Helper()
	s := program.Start(t)
	w := open(t, width, height)
	w.join(s.Address, "r", "Ann")
	return w, s
}

// play serves the page, and instead of the chat's socket one that the test plays: f runs for each
// connection, and returns when that has ended.
func play(t *testing.T, f func(c *websocket.Conn)) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	root, _ := fs.Sub(files, "page")
	mux.Handle("/", http.FileServerFS(root))
	mux.HandleFunc("/ws-chat", func(w http.ResponseWriter, r *http.Request) {
		c, err := (&websocket.Upgrader{}).Upgrade(w, r, nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		f(c)
	})
	s := httptest.NewServer(mux)
	t.Cleanup(s.Close)
	t.Cleanup(s.CloseClientConnections)
	return s.URL
}

func (w *tab) do(steps ...chromedp.Action[chromedp.Void]) {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	if err := chromedp.Do(ctx, steps...); err != nil {
		w.Fatal(err)
	}
}

// until waits until an expression is true. Each %s in it is an argument as JavaScript writes it; $
// is document.getElementById.
func (w *tab) until(expression string, args ...any) {
	w.Helper()
	for i, arg := range args {
		text, _ := json.Marshal(arg)
		args[i] = string(text)
	}
	// A page that is still being loaded lacks elements.
	expression = `(($) => document.readyState === "complete" && (` +
		fmt.Sprintf(expression, args...) +
		`))((id) => document.getElementById(id))`
	ctx, cancel := context.WithTimeout(w.ctx, patience)
	defer cancel()
	_, err := chromedp.Run(ctx, chromedp.Poll[bool](expression))
	// Meanwhile the window may have loaded another page.
	for err != nil && strings.Contains(err.Error(), "Cannot find context") {
		_, err = chromedp.Run(ctx, chromedp.Poll[bool](expression))
	}
	if err != nil {
		page, _ := chromedp.Run(w.ctx, chromedp.Evaluate[string]("document.body.innerText"))
		w.Fatalf("%s: %v; the page says:\n%s", expression, err, page)
	}
}

// state waits until the page says that its connection is in this state.
func (w *tab) state(want string) {
	w.Helper()
	w.until(`$("status").dataset.state === %s`, want)
}

// join fills in what the page asks a person for at the first visit.
func (w *tab) join(address, room, name string) {
	w.Helper()
	if !strings.Contains(address, "://") {
		address = "http://" + address
	}
	w.do(
		chromedp.Navigate(address+"/?"+url.Values{"room": {room}}.Encode()),
		chromedp.WaitVisible("#enter"),
		chromedp.Focus("#name"),
	)
	w.types(name)
	w.press("Enter", 0)
	w.until(`$("status").dataset.state === "open" && $("me").textContent === %s`, name)
}

// begin types a message and does not send it.
func (w *tab) begin(text string) {
	w.Helper()
	w.do(chromedp.Focus("#text"))
	w.types(text)
}

func (w *tab) say(text string) {
	w.Helper()
	w.begin(text)
	w.press("Enter", 0)
}

// texts returns the messages that are shown, in order.
func (w *tab) texts() []string {
	w.Helper()
	all, err := chromedp.Run(w.ctx,
		chromedp.Evaluate[[]string](
			`[...document.querySelectorAll(".list .text")].map((e) => e.textContent)`))
	if err != nil {
		w.Fatal(err)
	}
	return all
}

// paste fills the box and sends it, text by text, faster than a person types.
func (w *tab) paste(texts ...string) {
	w.Helper()
	w.until(`(%s.forEach((text) => {
		$("text").value = text;
		$("text").dispatchEvent(new Event("input"));
		$("composer").requestSubmit();
	}), true)`, texts)
}

// sees waits until a message is shown, once.
func (w *tab) sees(text string) {
	w.Helper()
	w.until(
		`[...document.querySelectorAll(".message:not(.waiting) > .text")].filter((e) => e.textContent === %s).length === 1`, text)
}

// Two people in two windows talk, one reloads, the server crashes and comes back, and they go on.
func TestBrowser(t *testing.T) {
	t.Parallel()
	s := program.StartAt(t, loopback.Host()+":0")
	ann, bob := open(t, 1200, 800), open(t, 390, 800)
	ann.join(s.Address, "garden", "Ann")
	bob.join(s.Address, "garden", "Bob")
	for _, w := range []*tab{ann, bob} {
		w.until(`$("count").textContent === "2"`)
		w.until(
			`[...document.querySelectorAll("#people .who")].map((e) => e.textContent).sort().join() === "Ann,Bob"`)
	}
	ann.until(`$("log").innerText.includes("Bob has joined")`)

	// What is typed is text, whatever it looks like.
	const markup = `<img src=x onerror="document.title='owned'"> & <script>alert(1)</script>`
	ann.begin("Hello")
	bob.until(`$("typing").textContent === "Ann is typing"`)
	ann.say(" Bob")
	bob.sees("Hello Bob")
	bob.until(`$("typing").textContent === ""`)
	bob.say(markup)
	ann.sees(markup)
	ann.until(
		`document.querySelectorAll("#log img, #log script").length === 0 && document.title === "garden · Chat"`)
	ann.until(
		`document.querySelector(".own .text").textContent === "Hello Bob" && document.querySelectorAll(".own").length === 1`)
	ann.until(`document.querySelector("#log .message:not(.own) .author").textContent === "Bob"`)
	bob.say("See https://example.org/a?b=c, or javascript:alert(1)")
	ann.until(
		`[...document.querySelectorAll("#log a")].map((a) => a.href).join() === "https://example.org/a?b=c"`)

	// After a reload the page knows the name, and shows what was said, once.
	ann.do(chromedp.Reload())
	ann.until(`$("status").dataset.state === "open" && !$("enter").open`)
	ann.sees("Hello Bob")
	ann.sees(markup)
	ann.say("I am back")
	bob.sees("I am back")

	// After a change of network the old connection may be dead without an event.
	ann.until(`dispatchEvent(new Event("online")) && $("status").dataset.state === "connecting"`)
	ann.state("open")
	ann.sees("I am back")

	// The server is gone, and then there is another.
	bob.begin("not lost")
	s.End(t, syscall.SIGKILL)
	for _, w := range []*tab{ann, bob} {
		w.state("waiting")
		w.until(`$("trouble").innerText.includes("The connection is lost")`)
	}
	bob.press("Enter", 0)
	bob.until(
		`document.querySelector(".waiting .text").textContent === "not lost" && $("text").value === ""`)
	bob.until(`document.querySelector(".waiting .why").textContent === "Waiting for the connection"`)
	bob.until(
		`$("people-label").textContent === "Last seen here" && getComputedStyle($("people")).opacity < 0.5`)
	program.StartAt(t, s.Address)
	for _, w := range []*tab{ann, bob} {
		w.until(`$("status").dataset.state === "open" && $("trouble").hidden`)
		w.until(
			`$("people-label").textContent === "Here now" && getComputedStyle($("people")).opacity === "1"`)
		w.until(`$("count").textContent === "2"`)
		w.sees("I am back")
	}
	ann.sees("not lost")
	bob.sees("not lost")
	bob.until(`document.querySelector(".waiting") === null`)
	ann.say("Nothing is")
	bob.sees("Nothing is")
}

// If the server refuses a name, the page says why and asks again. It does not try again by itself.
func TestBrowserRefused(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	w := open(t, 800, 600)
	w.do(
		chromedp.Navigate("http://"+s.Address+"/"),
		chromedp.WaitVisible("#enter"),
		chromedp.SetValue("#name", "Ann\u200b"), chromedp.Focus("#name"),
	)
	w.press("Enter", 0)
	w.until(
		`$("enter").open && $("refused").innerText === "name: only printable characters are allowed"`)
	w.do(chromedp.SetValue("#name", "Ann"))
	w.press("Enter", 0)
	w.until(`$("status").dataset.state === "open" && $("room").textContent === "lobby"`)

	// A person who is sent away for sending too much is told so, and has to come back by hand. The
	// page keeps to the limits, so the test sends over its connection.
	w.until(`((send) => {
		WebSocket.prototype.send = function () {
			WebSocket.prototype.send = send;
			for (let i = 0; i < %s; i++) send.call(this, "too much");
		};
		return true;
	})(WebSocket.prototype.send)`, burst+2*maxHeld)
	w.types("x")
	w.until(
		`$("status").dataset.state === "refused" && $("why").innerText.includes("too many messages")`)
	w.until(`$("when").textContent === "" && !$("enter").open`)
	w.do(chromedp.Focus("#again"))
	w.press("Enter", 0)
	w.until(`$("status").dataset.state === "open" && $("trouble").hidden`)
	w.say("I am back")
	w.until(
		`[...document.querySelectorAll(".own .text")].at(-1).textContent.endsWith("I am back") && document.querySelector(".waiting") === null`)
}

// A reader who is further up stays there, and is told of what is new below.
func TestBrowserScroll(t *testing.T) {
	t.Parallel()
	w, s := visit(t, 390, 600)
	bob, _ := join(t, s, "r", "Bob")
	for i := range 20 {
		bob.say(fmt.Sprintf("%d\n\n\n", i) + "end of a message of several lines")
	}
	w.until(`document.querySelectorAll(".message").length === 20 && ` + atEnd)
	w.until(`(globalThis.moved ??= ((log) => {
		log.addEventListener("scroll", () => globalThis.moved = "moved");
		log.scrollTop = 100;
	})($("log"))) === "moved"`)
	cat, _ := join(t, s, "r", "Cat")
	cat.say("news")
	w.until(`!$("newest").hidden && $("log").scrollTop === 100`)
	w.do(chromedp.Click("#newest"))
	w.until(`$("newest").hidden && ` + atEnd)
	cat.say("more")
	w.sees("more")
	w.until(atEnd)
}

// Everything can be reached and done without a pointer: the room's people, on a phone, and back to
// the message.
func TestBrowserKeyboard(t *testing.T) {
	t.Parallel()
	w, _ := visit(t, 390, 800)
	w.until(`document.activeElement.id === "text"`)
	w.do(chromedp.Focus("#menu"))
	w.press(" ", 0)
	w.until(
		`$("menu").getAttribute("aria-expanded") === "true" && $("side").contains(document.activeElement)`)
	w.press("Escape", 0)
	w.until(
		`$("menu").getAttribute("aria-expanded") === "false" && document.activeElement.id === "menu"`)
	// Nor can the Tab key reach it.
	w.until(`getComputedStyle($("side")).visibility === "hidden"`)
	// Whatever can be used has a name.
	w.until(`[...document.querySelectorAll("button, input, textarea, a")].every((e) =>
		(e.getAttribute("aria-label") ?? "") + e.textContent.trim() + [...(e.labels ?? [])].map((l) => l.textContent) !== "")`)
}

// TestScreenshots is for people that change the page: it leaves pictures in the folder that
// LWANGO_SCREENSHOTS names.
func TestScreenshots(t *testing.T) {
	folder := os.Getenv("LWANGO_SCREENSHOTS")
	if folder == "" {
		t.Skip("LWANGO_SCREENSHOTS names no folder")
	}
	s := program.Start(t)
	ann := open(t, 1200, 800)
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
	ann.join(s.Address, "garden", "Ann")
	shoot(ann, "empty")
	bob := open(t, 390, 800)
	bob.join(s.Address, "garden", "Bob")
	zoe := open(t, 390, 800)
	zoe.join(s.Address, "garden", "Zoë")
	zoe.media("prefers-color-scheme", "dark")
	li := open(t, 1200, 800)
	li.join(s.Address, "garden", "李小龍")
	li.media("prefers-color-scheme", "dark")
	for _, line := range []struct {
		who  *tab
		text string
	}{
		{bob, "Morning! Did anybody water the tomatoes yesterday?"},
		{zoe, "I did, around seven. The two in the corner look a bit sad though 🍅"},
		{ann, "Thanks Zoë!"},
		{ann,
			"I have put some of the old compost there on Sunday, let's see whether that helps. If not we " +
				"could move them to the south wall, there is still room beside the beans."},
		{li,
			"There is a good page about that: https://example.org/tomatoes?sad=yes (see the part on " +
				"magnesium)."},
		{li, "And it says: <b>do not water at noon</b>"},
		{bob, "Understood 👍"},
		{zoe, "Who comes on Saturday? I bring cake."},
		{ann, "Me!"},
	} {
		line.who.say(line.text)
		ann.sees(line.text)
	}
	bob.begin("Let me see")
	for _, w := range []*tab{ann, zoe, li} {
		w.sees("Me!")
		w.until(`$("typing").textContent !== ""`)
	}
	shoot(ann, "desktop-light")
	shoot(li, "desktop-dark")
	shoot(bob, "phone-light")
	shoot(zoe, "phone-dark")
	zoe.do(chromedp.Click("#menu"))
	time.Sleep(400 * time.Millisecond)
	shoot(zoe, "phone-dark-side")
	s.End(t, syscall.SIGKILL)
	for _, w := range []*tab{ann, bob} {
		w.state("waiting")
	}
	bob.say(" how much is left of it")
	ann.say("Is anybody there?")
	ann.until(
		`document.querySelector(".waiting") !== null && getComputedStyle($("people")).opacity < 0.5`)
	shoot(ann, "desktop-lost")
	shoot(bob, "phone-lost")
	li.media("forced-colors", "active")
	shoot(li, "desktop-forced")
	ann.do(chromedp.Click("#rename"))
	shoot(ann, "rename")
}
