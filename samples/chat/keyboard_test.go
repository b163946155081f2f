package main

import (
	"strings"
	"testing"
	"unicode"

	"github.com/chromedp/cdproto/input"
	"github.com/chromedp/chromedp"
	"github.com/lwango/lwango/internal/test/program"
)

// Modifiers of keys, as the browser's protocol has them.
const (
	ctrl  = 2
	shift = 8
)

// keys are those that have a name. What is in text, the key writes.
var keys = map[string]struct {
	code int64
	text string
}{
	"Backspace": {8, ""}, "Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, "End": {35, ""},
	"Home":      {36, ""},
	"ArrowLeft": {37, ""}, "ArrowUp": {38, ""}, "ArrowRight": {39, ""}, "ArrowDown": {40, ""},
	"Delete": {46, ""},
}

// press presses a key and lets it go, as a keyboard does: the page gets keydown, and what it does
// with that decides whether anything else happens. chromedp's SendKeys sends the character besides,
// whatever becomes of the key.
func (w *tab) press(key string, modifiers int64, commands ...string) {
	w.Helper()
	down := input.DispatchKeyEventParams{Type: input.DispatchKeyEventTypeRawKeyDown, Key: key,
		Code: key, Modifiers: modifiers, Commands: commands}
	if named, ok := keys[key]; ok {
		down.WindowsVirtualKeyCode, down.Text = named.code, named.text
	} else {
		r := []rune(key)[0]
		if r < unicode.MaxASCII && unicode.IsLetter(r) {
			down.Code, down.WindowsVirtualKeyCode = "Key"+strings.ToUpper(key),
				int64(unicode.ToUpper(r))
		}
		if modifiers&ctrl == 0 {
			down.Text = key
		}
	}
	if down.Text != "" {
		down.Type, down.UnmodifiedText = input.DispatchKeyEventTypeKeyDown, down.Text
	}
	up := down
	up.Type, up.Text, up.UnmodifiedText, up.Commands = input.DispatchKeyEventTypeKeyUp, "", "", nil
	for _, event := range []input.DispatchKeyEventParams{down, up} {
		if _, err := chromedp.Call(w.ctx, input.DispatchKeyEvent, event); err != nil {
			w.Fatal(err)
		}
	}
}

// types types a text, wherever the focus is. A line end is Shift and Enter.
func (w *tab) types(text string) {
	w.Helper()
	for _, r := range text {
		switch {
		case r == '\n':
			w.press("Enter", shift)
		case unicode.IsUpper(r):
			w.press(string(r), shift)
		default:
			w.press(string(r), 0)
		}
	}
}

// box waits until a field has this text, and the focus.
func (w *tab) box(id, text string) {
	w.Helper()
	w.until(`document.activeElement.id === %s && document.activeElement.value === %s`, id, text)
}

// focused waits until the focus is on an element of that id.
func (w *tab) focused(id string) {
	w.Helper()
	w.until(`document.activeElement.id === %s`, id)
}

// Every key does in the message box what it does in any other.
func TestBrowserTyping(t *testing.T) {
	t.Parallel()
	s := program.Start(t)
	w := open(t, 1200, 800)
	w.do(chromedp.Navigate("http://"+s.Address+"/?room=r"), chromedp.WaitVisible("#enter"))
	w.focused("name")
	w.types("Amn")
	w.press("Backspace", 0)
	w.press("ArrowLeft", 0)
	w.press("Delete", 0)
	w.types("nn")
	w.box("name", "Ann")
	w.press("Enter", 0)
	w.until(`$("status").dataset.state === "open" && $("me").textContent === "Ann"`)
	w.box("text", "")

	w.types("Helo there, 李!")
	w.box("text", "Helo there, 李!")
	w.press("Home", 0)
	for range 3 {
		w.press("ArrowRight", 0)
	}
	w.types("l")
	w.press("End", 0)
	w.press("Backspace", 0)
	w.types("?")
	w.box("text", "Hello there, 李?")
	w.press("Enter", shift)
	w.types("second Line")
	w.box("text", "Hello there, 李?\nsecond Line")
	w.press("ArrowUp", 0)
	w.press("Home", 0)
	w.types("> ")
	w.box("text", "> Hello there, 李?\nsecond Line")
	w.press("Enter", 0)
	w.sees("> Hello there, 李?\nsecond Line")
	w.box("text", "")

	// Cut and paste, twice.
	w.types("again ")
	w.press("a", ctrl, "selectAll")
	w.press("x", ctrl, "cut")
	w.box("text", "")
	w.press("v", ctrl, "paste")
	w.press("v", ctrl, "paste")
	w.box("text", "again again ")
	w.press("Enter", 0)
	w.sees("again again")
	w.box("text", "")
	w.press("Enter", 0) // nothing to send
	w.until(`document.querySelectorAll(".message").length === 2`)

	// Tab leads out of the box, to the button where that can be used, and back.
	w.types("by the button")
	w.press("Tab", 0)
	w.focused("send")
	w.press("Tab", shift)
	w.box("text", "by the button")
	w.press("Tab", 0)
	w.press("Enter", 0)
	w.sees("by the button")
	w.box("text", "")
	w.press("Tab", shift)
	w.until(`document.activeElement.id !== "text"`) // no trap
	w.press("Tab", 0)
	w.focused("text")

	// The other fields.
	w.do(chromedp.Focus("#other"))
	w.types("gardem")
	w.press("Backspace", 0)
	w.types("n")
	w.box("other", "garden")
	w.press("Enter", 0)
	w.until(`$("room").textContent === "garden" && $("status").dataset.state === "open"`)
}
