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

// refuse returns the error with which a client is sent away, as it is told.
func refuse(code int, format string, args ...any) error {
	return &websocket.CloseError{Code: code, Text: fmt.Sprintf(format, args...)}
}

// frame is what a client has to say.
type frame struct {
	kind string // message, typing, ping or older
	id   string // of a message, "" if the client gives it none; or of the one that older ones are asked for
	text string // of a message; may be empty, and then nothing was said
}

// parseFrame reads a client's frame. Text that is not a JSON object with a type is a message as it stands, so that any
// WebSocket client will do for a chat. Its encoding was checked before.
func parseFrame(kind int, p []byte) (frame, error) {
	if kind != websocket.Text {
		return frame{}, refuse(websocket.UnsupportedData, "only text is understood here")
	}
	f := frame{kind: "message", text: string(p)}
	var fields map[string]json.RawMessage // and not a struct, which would take Type for type
	if json.Unmarshal(p, &fields) == nil && fields["type"] != nil {
		f.kind = ""
		_ = json.Unmarshal(fields["type"], &f.kind) // what is no string is no type that we know
		switch f.kind {
		case "typing", "ping":
			return frame{kind: f.kind}, nil
		case "older":
			if json.Unmarshal(fields["before"], &f.id) != nil || f.id == "" {
				return frame{}, refuse(websocket.InvalidData, "before: expected the id of a message")
			}
			return frame{kind: f.kind, id: f.id}, nil
		case "message":
			var said *string
			if json.Unmarshal(fields["text"], &said) != nil || said == nil {
				return frame{}, refuse(websocket.InvalidData, "text of a message: expected a string")
			}
			if f.text = *said; fields["id"] != nil && (json.Unmarshal(fields["id"], &f.id) != nil || !validID.MatchString(f.id)) {
				return frame{}, refuse(websocket.InvalidData, "id of a message: expected 8 to %d letters, digits, - or _", maxID)
			}
		default:
			return frame{}, refuse(websocket.InvalidData, "type: expected message, typing, ping or older")
		}
	}
	sent := utf8.RuneCountInString(f.text)
	f.text = strings.TrimSpace(norm.NFC.String(strings.Map(sayable, lineEnds.Replace(f.text))))
	// What some languages write with one character NFC writes with two, and nobody counts these.
	if n := min(sent, utf8.RuneCountInString(f.text)); n > maxText {
		return frame{}, refuse(websocket.TooBig, "message of %d characters, at most %d are allowed", n, maxText)
	}
	return f, nil
}

// validID is what the id of a message may be. A short one could be another's by chance, and would
// be taken for said.
var validID = regexp.MustCompile(`^[A-Za-z0-9_-]{8,` + strconv.Itoa(maxID) + `}$`)

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n")

// sayable drops control characters: a text is to be read, on terminals, too.
func sayable(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

// checkName returns a name as it is shown and compared: in NFC (UAX #15), so that one é is the
// other. Nothing in it is unseen, or turns the line around; but names of different characters may
// still look the same.
func checkName(what, s string) (string, error) {
	s = norm.NFC.String(strings.Map(func(r rune) rune {
		if unicode.Is(unicode.Variation_Selector, r) { // keyboards put them behind emoji, and nobody sees them
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
	return s, nil
}

// marks is more of them, one upon the other, than a language needs: they would cover what is above.
var marks = regexp.MustCompile(`\pM{4}`)

// unseen reports whether r has no shape of its own, but for the space. Some of what unicode.IsPrint lets pass has none.
func unseen(r rune) bool {
	const blank = '\u2800' // of Braille
	return !unicode.IsPrint(r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r) || r == blank
}
