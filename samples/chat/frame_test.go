package main

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lwango/lwango/handlers/websocket"
)

func code(err error) int {
	if e, ok := errors.AsType[*websocket.CloseError](err); ok {
		return e.Code
	}
	return 0
}

func TestParseFrame(t *testing.T) {
	long := strings.Repeat("é", maxText)
	for _, c := range []struct {
		kind int
		sent string
		want frame
		code int // of the close, 0: it is good
		why  string
	}{
		{websocket.Text, "hello", frame{kind: "message", text: "hello"}, 0, "text as it stands"},
		{websocket.Text, `{"type":"message","text":"hello"}`, frame{kind: "message", text: "hello"}, 0,
			"the same"},
		{websocket.Text, ` {"text":"a\nb\u0000","more":1,"type":"message"} `,
			frame{kind: "message", text: "a\nb"}, 0, "what else is in it does not matter"},
		{websocket.Text, `{"type":"typing"}`, frame{kind: "typing"}, 0, ""},
		{websocket.Text, `{"type":"typing","text":5}`, frame{kind: "typing"}, 0, "has no text"},
		{websocket.Text, `{"Type":"typing"}`, frame{kind: "message", text: `{"Type":"typing"}`}, 0,
			"names are exact"},
		{websocket.Text, `{"type":"message","Text":"x"}`, frame{}, 1007, "so text is missing"},
		{websocket.Text, `{"text":"hello"}`, frame{kind: "message", text: `{"text":"hello"}`}, 0,
			"no type: not for us"},
		{websocket.Text, `{"type":"message","text":"x"`,
			frame{kind: "message", text: `{"type":"message","text":"x"`}, 0, "no JSON"},
		{websocket.Text, `{"type":"message","text":"x"} {}`,
			frame{kind: "message", text: `{"type":"message","text":"x"} {}`}, 0, "nor this"},
		{websocket.Text, `["type"]`, frame{kind: "message", text: `["type"]`}, 0, "no object"},
		{websocket.Text, `null`, frame{kind: "message", text: "null"}, 0, "nor this"},
		{websocket.Text, "a\r\nb\rc\x1b[2Jd\x7f\u0085\te\x00\b",
			frame{kind: "message", text: "a\nb\nc[2Jd\te"}, 0, "control characters are dropped"},
		{websocket.Text, "\x00\x1b", frame{kind: "message"}, 0, "nothing is left"},
		{websocket.Text, "e\x00\u0301", frame{kind: "message", text: "\u00e9"}, 0, "NFC of what is left"},
		{websocket.Text, "e\u0301", frame{kind: "message", text: "\u00e9"}, 0, "NFC"},
		{websocket.Text, strings.Repeat("e\u0301", maxText), frame{kind: "message", text: long}, 0,
			"as many in NFC"},
		{websocket.Text, strings.Repeat("\u0958", maxText),
			frame{kind: "message", text: strings.Repeat("\u0915\u093c", maxText)}, 0,
			"twice as many in NFC, of as many that were sent"},
		{websocket.Text, `{"type":"message","id":"abcdefgh-_09","text":"x"}`,
			frame{kind: "message", id: "abcdefgh-_09", text: "x"}, 0, "an ID"},
		{websocket.Text, `{"type":"message","id":"abcdefgh","text":""}`,
			frame{kind: "message", id: "abcdefgh"}, 0, "to be acknowledged"},
		{websocket.Text, `{"type":"message","id":"abcdefg","text":"x"}`, frame{}, 1007, "too short"},
		{websocket.Text, `{"type":"message","id":"` + strings.Repeat("a", maxID+1) + `","text":"x"}`,
			frame{}, 1007, "too long"},
		{websocket.Text, `{"type":"message","id":"abcdefgh ","text":"x"}`, frame{}, 1007, "a space"},
		{websocket.Text, `{"type":"message","id":5,"text":"x"}`, frame{}, 1007, "a number"},
		{websocket.Text, `{"type":"ping"}`, frame{kind: "ping"}, 0, ""},
		{websocket.Text, `{"type":"older","before":"abc"}`, frame{kind: "older", id: "abc"}, 0, ""},
		{websocket.Text, `{"type":"older"}`, frame{}, 1007, "than what?"},
		{websocket.Text, `{"type":"message"}`, frame{}, 1007, "text is missing"},
		{websocket.Text, `{"type":"message","text":null}`, frame{}, 1007, "null is no string"},
		{websocket.Text, `{"type":"message","text":["x"]}`, frame{}, 1007, "nor this"},
		{websocket.Text, `{"type":"join"}`, frame{}, 1007, "what only the server says"},
		{websocket.Text, `{"type":5}`, frame{}, 1007, "no string"},
		{websocket.Text, `{"type":null}`, frame{}, 1007, "nor this"},
		{websocket.Text, "", frame{kind: "message"}, 0, "nothing is said"},
		{websocket.Text, " \n\u2003 ", frame{kind: "message"}, 0, "nor here"},
		{websocket.Text, `{"type":"message","text":" x "}`, frame{kind: "message", text: "x"}, 0, ""},
		{websocket.Text, long, frame{kind: "message", text: long}, 0, "the longest"},
		{websocket.Text, long + "x", frame{}, 1009, "longer"},
		{websocket.Text, `{"type":"message","text":"` + long + `x"}`, frame{}, 1009, "longer"},
		{websocket.Binary, "hello", frame{}, 1003, "binary"},
	} {
		got, err := parseFrame(c.kind, []byte(c.sent))
		if got != c.want || code(err) != c.code {
			t.Errorf("%.60q (%s): got %.60q, %v, want %.60q, %d", c.sent, c.why, got.text, err, c.want.text,
				c.code)
		}
	}
}

func TestCheckName(t *testing.T) {
	for _, c := range []struct {
		sent, want string
		why        string
	}{
		{"Ann", "Ann", ""},
		{"  Ann   Lee ", "Ann Lee", "spaces that nobody sees"},
		{"李小龍", "李小龍", ""},
		{"Zoë", "Zoë", ""},
		{"🦊", "🦊", ""},
		{"<b>&\"'", "<b>&\"'", "the page shows text, not markup"},
		{strings.Repeat("é", maxName), strings.Repeat("é", maxName), "the longest"},
		{strings.Repeat("é", maxName+1), "", "too long"},
		{"", "", "missing"},
		{"   ", "", "missing"},
		{"A\nB", "", "line end"},
		{"A\x00", "", "NUL"},
		{"A\u007f", "", "DEL"},
		{"A\u0085", "", "C1"},
		{"Ann\u200b", "", "zero width: it looks like Ann"},
		{"Ann\u00a0", "", "a space that is another"},
		{"\u202enna", "", "turns the line around"},
		{"A\xff", "", "no UTF-8"},
		{"Bob\ufe0f", "Bob", "variation selectors are not seen, nor is this one"},
		{"\U000e0100", "", "and alone they are nothing"},
		{"☀\ufe0f", "☀", "as a keyboard writes it"},
		{"e\u0301\u0323\u0302", "\u1eb9\u0301\u0302", "marks, in NFC"},
		{"Zoe\u0308", "Zo\u00eb", "NFC"},
		{"\u212bsa", "\u00c5sa", "NFC: the unit is the letter"},
		{"e\ufe0f\u0301", "\u00e9", "NFC of what is left"},
		{"e\u0301\u0323\u0302\u0308", "", "too many of them"},
		{"Bob\u034f", "", "grapheme joiner"},
		{"\u3164", "", "filler"},
		{"\u115f", "", "filler"},
		{"\u2800", "", "blank"},
		{"\ufffd", "\ufffd", "a sign like others"},
	} {
		got, err := checkName("name", c.sent)
		if got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%q (%s): got %q, %v", c.sent, c.why, got, err)
		}
	}
}

// Whatever a client sends is either refused, with a code that says why, or becomes a message that
// can be sent to others.
func FuzzFrame(f *testing.F) {
	for _, seed := range []string{
		"", "hello", `{"type":"message","text":"hello"}`, `{"type":"typing"}`,
		`{"type":"message","text":"\ud800"}`,
		`{"type":"message","type":"typing","text":1}`, `[[[[`, `{"type":{"type":{}}}`, "\u2028",
		"\ufeff{}", `{"text":"` + strings.Repeat("x", maxText) + `","type":"message"}`,
	} {
		f.Add(websocket.Text, []byte(seed))
	}
	f.Add(websocket.Binary, []byte("hello"))
	f.Fuzz(func(t *testing.T, kind int, p []byte) {
		if !utf8.Valid(p) {
			return // does not get here
		}
		got, err := parseFrame(kind, p)
		if err != nil {
			if c := code(err); c != 1003 && c != 1007 && c != 1009 || got != (frame{}) {
				t.Fatalf("%q: %+v, %v", p, got, err)
			}
			if reason := err.(*websocket.CloseError).Text; len(reason) > 123 {
				t.Errorf("the reason does not fit into a close frame: %s", reason)
			}
			return
		}
		if kind != websocket.Text {
			t.Errorf("kind %d was taken", kind)
		}
		// NFC makes at most three characters of one.
		if got.kind != "message" && got.text != "" || got.text != strings.TrimSpace(got.text) ||
			utf8.RuneCountInString(got.text) > 3*maxText {
			t.Errorf("%q: %+v", p, got)
		}
		var sent notice
		if err := json.Unmarshal(message("room", "name", got), &sent); err != nil ||
			sent.Text != got.text {
			t.Errorf("%q is sent as %q, %v", got.text, sent.Text, err)
		}
	})
}

func FuzzName(f *testing.F) {
	for _, seed := range []string{"", "Ann", " A  B ", "\u202e", "e\u0301", "A\tB", "\xff",
		strings.Repeat("x", 33)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got, err := checkName("name", s)
		if err != nil {
			if got != "" {
				t.Errorf("%q: %q, %v", s, got, err)
			}
			return
		}
		if n := utf8.RuneCountInString(got); n < 1 || n > maxName ||
			strings.ContainsFunc(got, unicode.IsControl) {
			t.Errorf("%q became %q", s, got)
		}
		if again, err := checkName("name", got); err != nil || again != got {
			t.Errorf("%q became %q, and that %q, %v", s, got, again, err)
		}
	})
}

func TestAllowance(t *testing.T) {
	now := time.Now()
	var a allowance
	for i := range burst {
		if !a.take(sayLimit, 1, now) {
			t.Fatalf("nothing is left after %d", i)
		}
	}
	if a.take(sayLimit, 1, now) {
		t.Error("more than a burst at once")
	}
	now = now.Add(time.Second)
	for i := range rate {
		if !a.take(sayLimit, 1, now) {
			t.Errorf("nothing is left after %d in a second", i)
		}
	}
	if a.take(sayLimit, 1, now) {
		t.Error("more than the rate")
	}
	now = now.Add(time.Hour)
	n := 0
	for a.take(sayLimit, 1, now) {
		n++
	}
	if n != burst {
		t.Errorf("%d at once after an hour", n)
	}
}
