package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
	"github.com/gorilla/websocket"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/internal/test/program"
)

// However often people come and go: they have a line, and what was said stays in view.
func TestBrowserMovement(t *testing.T) {
	t.Parallel()
	w, s := visit(t, 800, 600)
	w.say("to be seen")
	w.sees("to be seen")
	for i := range 60 {
		c, _ := join(t, s, "r", fmt.Sprint("Flap ", i%3))
		c.vanish()
	}
	for i := range 6 {
		join(t, s, "r", fmt.Sprint("Guest ", i))
	}
	w.until(
		`[...document.querySelectorAll(".notice")].filter((e) => !e.hidden).map((e) => e.textContent).join() ===
		"Guest 0, Guest 1, Guest 2 and 3 others have joined"`)
	w.until(`document.querySelectorAll(".notice").length === 1`)
	w.until(
		`(({top, bottom}) => top >= 0 && bottom <= innerHeight)(document.querySelector(".message").getBoundingClientRect())`)
}

// One message does not fill the screen, however many lines it has.
func TestBrowserLongMessage(t *testing.T) {
	t.Parallel()
	w, s := visit(t, 800, 700)
	bob, _ := join(t, s, "r", "Bob")
	bob.say("before")
	bob.say("a" + strings.Repeat("\n", maxText-2) + "z")
	w.until(`document.querySelectorAll(".message").length === 2`)
	w.until(
		`(({top, bottom}) => top >= 0 && bottom <= innerHeight)(document.querySelector(".message").getBoundingClientRect())`)
}

// A reader who scrolls up gets to see all that the server remembers, in order, and keeps his place.
func TestBrowserOlder(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	const n = 3*pageful + 7
	var all []string
	for i := 0; i < n; {
		c, _ := join(t, s, "r", "Bob")
		for range burst {
			if i < n {
				all = append(all, fmt.Sprint("message ", i))
				c.say(withID(fmt.Sprintf("message-%d", i), all[i]))
				c.next("ack")
				i++
			}
		}
		c.vanish()
	}
	w := open(t, 800, 600)
	w.join(s.Address, "r", "Ann")
	w.until(
		`document.querySelectorAll(".message").length === %s && !document.querySelector(".older").hidden`,
		pageful)
	// At first by the keyboard. Scrolling there would ask, too, and the answer may come before the
	// key is pressed.
	w.until(
		`(document.querySelector(".older").focus({ preventScroll: true }), document.activeElement.matches(".older"))`)
	w.press("Enter", 0)
	w.until(`document.querySelectorAll(".message").length === %s`, 2*pageful)
	w.until(
		`(document.querySelector(".message").inView = document.querySelectorAll(".message")[%s].getBoundingClientRect().top, true)`, pageful)
	w.until(`($("log").scrollTop = 0, document.querySelector(".older").hidden)`)
	if got := w.texts(); !slices.Equal(got, all) {
		t.Errorf("shown are %q", got)
	}
	w.until(`document.querySelectorAll(".day").length === 1`)
}

// Another name: it can be canceled, and if it is refused, the old one stays.
func TestBrowserRename(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	w := open(t, 800, 600)
	w.do(chromedp.Navigate("http://"+s.Address+"/?room=r"), chromedp.WaitVisible("#enter"))
	w.until(`$("cancel").hidden`) // there is nothing to go back to
	w.types("An")
	for range 4 { // a browser lets the page keep a dialog open once at most
		w.press("Escape", 0)
		w.until(`$("enter").open`)
		w.box("name", "An")
	}
	w.join(s.Address, "r", "Ann")
	named := func(name string) {
		t.Helper()
		w.until(`$("status").dataset.state === "open" && !$("enter").open &&
			$("me").textContent === %s && document.querySelectorAll("#people li").length === 1`, name)
		w.focused("text")
	}
	rename := func(name string) {
		t.Helper()
		w.do(chromedp.Click("#rename"))
		w.focused("name")
		w.press("a", ctrl, "selectAll")
		w.types(name)
		w.box("name", name)
	}
	named("Ann")
	rename("Bob")
	w.do(chromedp.Click("#cancel"))
	named("Ann")
	rename("Bob")
	w.press("Escape", 0)
	named("Ann")
	rename("Bad\u200b")
	w.press("Enter", 0)
	w.until(`$("refused").textContent === "name: only printable characters are allowed"`)
	w.do(chromedp.Click("#cancel"))
	named("Ann")
	rename("Zoe\u0308")
	w.press("Enter", 0)
	named("Zo\u00eb")
	w.say("it is me")
	w.until(`document.querySelector(".message.own .text").textContent === "it is me"`)
}

// On a phone the name is changed where rooms and people are, which are not in the way afterwards.
func TestBrowserRenameOnPhone(t *testing.T) {
	t.Parallel()
	w, _ := visit(t, 360, 640)
	w.do(chromedp.Click("#menu"), chromedp.WaitVisible("#rename"), chromedp.Focus("#rename"))
	w.press("Enter", 0)
	w.focused("name")
	w.press("a", ctrl, "selectAll")
	w.types("Bob")
	w.press("Enter", 0)
	w.until(`$("me").textContent === "Bob" && getComputedStyle($("side")).visibility === "hidden"`)
	w.box("text", "")
	w.until(
		`document.elementFromPoint(innerWidth / 2, $("text").getBoundingClientRect().top + 10).id === "text"`)
}

// While a message grows line by line in the box, the last message stays in view.
func TestBrowserGrowingBox(t *testing.T) {
	t.Parallel()
	w, s := visit(t, 360, 420)
	bob, _ := join(t, s, "r", "Bob")
	for i := range 8 {
		bob.say(fmt.Sprint("message ", i))
	}
	w.until(`document.querySelectorAll(".message").length === 8 && ` + atEnd)
	w.types("a\nb\nc\nd\ne\nf")
	w.until(atEnd)
	bob.say("news")
	w.sees("news")
	w.until(atEnd + ` && $("newest").hidden`)
}

// Our earlier messages are ours under the name that the server has given us. Who is here comes
// later.
func TestBrowserOwnHistory(t *testing.T) {
	t.Parallel()
	shown := make(chan struct{})
	url := play(t, func(c *websocket.Conn) {
		said := []json.RawMessage{message("r", "Anne", frame{text: "mine"}),
			message("r", "Bob", frame{text: "yours"})}
		_ = c.WriteMessage(websocket.TextMessage,
			notice{Type: "history", Room: "r", Name: "Anne", Messages: said}.encode())
		<-shown
		_ = c.WriteMessage(websocket.TextMessage,
			notice{Type: "presence", Room: "r", Names: []string{"Anne"}}.encode())
		_, _, _ = c.ReadMessage() // until the page is gone
	})
	w := open(t, 800, 600)
	w.do(chromedp.Navigate(url+"/?room=r"), chromedp.WaitVisible("#enter"))
	w.types("Ann")
	w.press("Enter", 0)
	w.until(`document.querySelectorAll(".list .message").length === 2`)
	w.until(`$("me").textContent === "Anne"`)
	w.until(
		`[...document.querySelectorAll(".own .text")].map((e) => e.textContent).join() === "mine"`)
	close(shown)
	w.until(`$("count").textContent === "1"`)
}

// A server that is full says so, and is tried again.
func TestBrowserFull(t *testing.T) {
	t.Parallel()
	s := program.Start(t, "-per-address", "1")
	other, _ := join(t, s, "r", "Bob")
	w := open(t, 800, 600)
	w.do(chromedp.Navigate("http://"+s.Address+"/?room=r"), chromedp.WaitVisible("#enter"))
	w.types("Ann")
	w.press("Enter", 0)
	w.until(`$("trouble").innerText.includes("too many connections from your address") &&
		$("trouble").innerText.includes("Next attempt in")`)
	other.Conn.Close()
	w.state("open")
}

// The page notices that the network is gone, whether the browser says so or not.
func TestBrowserOffline(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	p := startProxy(t, s.Address)
	w := open(t, 800, 600)
	w.join(p.Addr().String(), "r", "Ann")
	w.until(`(dispatchEvent(new Event("offline")), $("status").dataset.state === "waiting")`)
	// The server is on this machine, and was there all the time.
	w.state("open")
	p.swallow(toServer | toClient)
	// So much time passes, without a word.
	w.until(
		`((now) => { Date.now = () => now() + 21_000; document.dispatchEvent(new Event("visibilitychange")); return true; })(Date.now)`)
	w.until(
		`$("status").dataset.state !== "open" && $("why").textContent === "The connection is lost."`)
	p.swallow(0)
	w.state("open")
	// A server that is there is asked, and answers.
	w.until(
		`((now) => { Date.now = () => now() + 21_000; document.dispatchEvent(new Event("visibilitychange")); return true; })(Date.now)`)
	w.until(
		`((now) => { Date.now = () => now() + 7_000; document.dispatchEvent(new Event("visibilitychange")); return true; })(Date.now)`)
	w.say("still here")
	w.sees("still here")
	w.state("open")
}

// The title counts what arrives while the page is hidden, and what was missed meanwhile.
func TestBrowserTitle(t *testing.T) {
	t.Parallel()
	s := program.StartAt(t, loopback.Host()+":0")
	w := open(t, 800, 600)
	bob, _ := join(t, s, "r", "Bob")
	bob.say("before")
	w.join(s.Address, "r", "Ann")
	w.sees("before")
	hide := func(hidden bool) {
		t.Helper()
		w.until(
			`(Object.defineProperty(document, "hidden", { value: %s, configurable: true }), document.dispatchEvent(new Event("visibilitychange")))`, hidden)
	}
	title := func(want string) {
		t.Helper()
		w.until(`document.title === %s`, want)
	}
	title("r · Chat")
	hide(true)
	bob.say("one")
	bob.say("two")
	title("(2) r · Chat")
	again, _ := join(t, s, "r", "Ann") // of ourselves, in another window
	again.say("mine")
	bob.say("three")
	title("(3) r · Chat")
	// The connection is lost, and what comes meanwhile is caught up with.
	w.until(`(dispatchEvent(new Event("offline")), $("status").dataset.state === "waiting")`)
	bob.say("four")
	bob.say("five")
	title("(5) r · Chat")
	hide(false)
	title("r · Chat")
	for _, text := range []string{"one", "two", "mine", "three", "four", "five"} {
		w.sees(text)
	}

	// Another server, that remembers other things.
	hide(true)
	s.End(t, syscall.SIGKILL)
	s = program.StartAt(t, s.Address)
	bob, _ = join(t, s, "r", "Bob")
	bob.say("six")
	title("(1) r · Chat")
}

// Screen readers announce what is new, once, and nothing that is old; and trouble, but not every
// second.
func TestBrowserAloud(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	bob, _ := join(t, s, "r", "Bob")
	bob.say("old")
	w := open(t, 800, 600)
	w.join(s.Address, "r", "Ann")
	w.sees("old")
	w.until(`$("aloud").ariaLive === "polite" && $("log").ariaLive === "off"`)
	w.say("mine")
	w.sees("mine")
	bob.say("new")
	w.until(`$("aloud").textContent === "Bob: new"`)
	w.until(
		`(globalThis.told = 0, new MutationObserver(() => told++).observe($("aloud"), { childList: true, characterData: true, subtree: true }), true)`)
	bob.say("new") // once more
	w.until(`told === 1 && $("aloud").textContent === "Bob: new"`)
	for i := range 5 {
		bob.say(fmt.Sprint(i))
	}
	w.until(`$("aloud").textContent === "5 new messages"`)
	w.until(
		`(globalThis.alerts = 0, new MutationObserver(() => alerts++).observe($("why"), { childList: true, characterData: true, subtree: true }), true)`)
	s.End(t, syscall.SIGKILL)
	w.until(`$("why").role === "alert" && $("why").textContent === "The connection is lost."`)
	w.until(`(globalThis.whens ??= new Set()).add($("when").textContent).size > 2 && alerts === 1`)
}

// Where the system has its own colours, nothing depends on ours.
func TestBrowserForcedColors(t *testing.T) {
	t.Parallel()
	w, s := visit(t, 800, 600)
	bob, _ := join(t, s, "r", "Bob")
	bob.say("Hello")
	w.say("Hello")
	w.until(`document.querySelectorAll(".list .message").length === 2`)
	w.media("forced-colors", "active")
	w.until(`matchMedia("(forced-colors: active)").matches`)
	w.until(
		`["#send", "#composer", ".message:not(.own) .text", ".own .text", "#room", "#rename"].every((which) => {
		const style = getComputedStyle(document.querySelector(which));
		return which === "#room" || which === "#rename" || style.borderStyle !== "none" && parseFloat(style.borderWidth) > 0;
	})`)
	w.until(
		`getComputedStyle(document.querySelector(".own .text")).borderWidth !== getComputedStyle(document.querySelector(".message:not(.own) .text")).borderWidth`)
	w.until(
		`getComputedStyle($("status"), "::before").backgroundColor !== getComputedStyle(document.querySelector("header")).backgroundColor`)
}

// media makes the window assume a media feature.
func (w *tab) media(name, value string) {
	w.Helper()
	params := emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{{Name: name,
		Value: value}}}
	if _, err := chromedp.Call(w.ctx, emulation.SetEmulatedMedia, params); err != nil {
		w.Fatal(err)
	}
}
