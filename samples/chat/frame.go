package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lwango/lwango/handlers/websocket"
)

const (
	maxName  = 32       // characters of a person's or a room's name
	maxText  = 2000     // characters of a message
	maxFrame = 16 << 10 // bytes; JSON may write a character of the text with several
)

// refuse returns the error with which a client is sent away, as it is told.
func refuse(code int, format string, args ...any) error {
	return &websocket.CloseError{Code: code, Text: fmt.Sprintf(format, args...)}
}

// frame is what a client has to say.
type frame struct {
	typing bool
	text   string // if it is not typing; may be empty, and then nothing was said
}

// parseFrame reads a client's frame. Text that is not a JSON object with a type is a message as it stands, so that any
// WebSocket client will do for a chat. Its encoding was checked before.
func parseFrame(kind int, p []byte) (frame, error) {
	if kind != websocket.Text {
		return frame{}, refuse(websocket.UnsupportedData, "only text is understood here")
	}
	text := string(p)
	var fields map[string]json.RawMessage // and not a struct, which would take Type for type
	if json.Unmarshal(p, &fields) == nil && fields["type"] != nil {
		var name string
		_ = json.Unmarshal(fields["type"], &name) // what is no string is no type that we know
		switch name {
		case "typing":
			return frame{typing: true}, nil
		case "message":
			var said *string
			if json.Unmarshal(fields["text"], &said) != nil || said == nil {
				return frame{}, refuse(websocket.InvalidData, "text of a message: expected a string")
			}
			text = *said
		default:
			return frame{}, refuse(websocket.InvalidData, "type: expected message or typing")
		}
	}
	text = strings.TrimSpace(text)
	if n := utf8.RuneCountInString(text); n > maxText {
		return frame{}, refuse(websocket.TooBig, "message of %d characters, at most %d are allowed", n, maxText)
	}
	return frame{text: text}, nil
}

// checkName returns a name as it is shown and compared. Nothing in it is unseen, or turns the line around; but names of
// different characters may still look the same.
func checkName(what, s string) (string, error) {
	s = strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Variation_Selector, r) { // keyboards put them behind emoji, and nobody sees them
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\x00"))
	if strings.ContainsFunc(s, unseen) {
		return "", fmt.Errorf("%s: only printable characters are allowed", what)
	}
	if marks.MatchString(s) {
		return "", fmt.Errorf("%s: too many marks on one character", what)
	}
	s = strings.Join(strings.Fields(s), " ")
	switch n := utf8.RuneCountInString(s); {
	case n == 0:
		return "", fmt.Errorf("%s is missing", what)
	case n > maxName:
		return "", fmt.Errorf("%s: at most %d characters are allowed", what, maxName)
	}
	return s, nil
}

// marks is more of them, one upon the other, than a language needs: they would cover what is above.
var marks = regexp.MustCompile(`\pM{4}`)

// unseen reports whether r has no shape of its own, but for the space. Some of what unicode.IsPrint lets pass has none.
func unseen(r rune) bool {
	const blank = '\u2800' // of Braille
	return !unicode.IsPrint(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == blank
}
