package main

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/lwango/lwango/handlers/websocket"
	"golang.org/x/text/unicode/norm"
)

const (
	maxName  = 32       // characters of a person's or a room's name
	maxText  = 2000     // characters of a message
	maxID    = 64       // characters of its ID
	maxFrame = 16 << 10 // bytes; JSON may write a character of the text with several
)

// refuse returns the error that sends a client away, with the code and the reason that it gets.
func refuse(code int, format string, args ...any) error {
	return &websocket.CloseError{Code: code, Text: fmt.Sprintf(format, args...)}
}

// frame is what a client has sent.
type frame struct {
	kind string // message, typing, ping or older
	id   string // of a message, "" if it has none; or that before which older ones are asked for
	text string // of a message; may be empty, and then nothing was said
}

// parseFrame reads a client's frame. Text that is not a JSON object with a type is a message as it
// stands, so that any WebSocket client can chat. The caller has checked that it is UTF-8.
func parseFrame(kind int, p []byte) (frame, error) {
	if kind != websocket.Text {
		return frame{}, refuse(websocket.UnsupportedData, "only text is understood here")
	}
	f := frame{kind: "message", text: string(p)}
	var fields map[string]json.RawMessage // not a struct, which would accept Type for type
	if json.Unmarshal(p, &fields) == nil && fields["type"] != nil {
		f.kind = ""
		_ = json.Unmarshal(fields["type"], &f.kind) // if it is no string, it is refused below
		switch f.kind {
		case "typing", "ping":
			return frame{kind: f.kind}, nil
		case "older":
			if json.Unmarshal(fields["before"], &f.id) != nil || f.id == "" {
				return frame{}, refuse(websocket.InvalidData,
					"before: expected the id of a message")
			}
			return frame{kind: f.kind, id: f.id}, nil
		case "message":
			var said *string
			if json.Unmarshal(fields["text"], &said) != nil || said == nil {
				return frame{}, refuse(websocket.InvalidData,
					"text of a message: expected a string")
			}
			f.text = *said
			if id := fields["id"]; id != nil &&
				(json.Unmarshal(id, &f.id) != nil || !validID.MatchString(f.id)) {
				return frame{}, refuse(websocket.InvalidData,
					"id of a message: expected 8 to %d letters, digits, - or _", maxID)
			}
		default:
			return frame{}, refuse(websocket.InvalidData,
				"type: expected message, typing, ping or older")
		}
	}
	sent := utf8.RuneCountInString(f.text)
	f.text = strings.TrimSpace(norm.NFC.String(strings.Map(sayable, lineEnds.Replace(f.text))))
	// NFC writes some characters as two; a person who counts them counts one.
	if n := min(sent, utf8.RuneCountInString(f.text)); n > maxText {
		return frame{}, refuse(websocket.TooBig,
			"message of %d characters, at most %d are allowed", n, maxText)
	}
	return f, nil
}

// validID is what the id of a message may be. A short one could equal another's by chance, and its
// message would count as a repetition.
var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{8,` + strconv.Itoa(maxID) + `}$`)

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// sayable drops control characters: a text is to be read, on terminals, too.
func sayable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

// checkName returns a name as it is shown and compared: in NFC (UAX #15), so that both ways to
// write é are one. A name has no invisible characters, and none that change the direction of the
// line. Names of different characters may still look the same.
func checkName(what, s string) (string, error) {
	s = norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Variation_Selector, r) { // keyboards put them behind emoji, unseen
			return -1
		}
		return r
	}, strings.ToValidUTF8(s, "\x00")))
	if strings.ContainsFunc(s, unseen) {
		return "", fmt.Errorf("%s: only printable characters are allowed", what)
	}
	if marks.MatchString(norm.NFD.String(s)) {
		return "", fmt.Errorf("%s: too many marks on one character", what)
	}
	s = strings.Join(strings.Fields(s), " ")
	switch n := utf8.RuneCountInString(s); {
	case n == 0:
		return "", fmt.Errorf("%s is missing", what)
	case n > maxName:
		return "", fmt.Errorf("%s: at most %d characters are allowed", what, maxName)
	}
	return strings.Clone(s), nil // it is kept, and what it was sent in need not be
}

// marks is more combining marks on one character than any language needs: they would cover the line
// above.
var marks = regexp.MustCompile(`\pM{4}`)

// unseen reports whether r is invisible and not a space. unicode.IsPrint alone lets some such
// characters pass.
func unseen(r rune) bool {
	const blank = '\u2800' // of Braille
	return !unicode.IsPrint(r) || r == blank ||
		unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}
