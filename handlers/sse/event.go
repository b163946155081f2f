package sse

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is what a client's EventSource dispatches. Send leaves out empty fields.
type Event struct {
	// ID names the event when the client connects again; see Stream.LastEventID. It is UTF-8 of at
	// most 256 bytes without line ends and NUL.
	ID string

	// Name is the event's type, without line ends; "message" where it is empty.
	Name string

	// Data is the text, UTF-8, of any number of lines. All line ends arrive as LF: the format cannot
	// tell them apart. If it is nil, the client does not dispatch the event, but obeys its ID and
	// Retry.
	Data []byte

	// Retry is how long the client waits before it connects again after the connection has ended.
	// It is sent in whole milliseconds, rounded up.
	Retry time.Duration
}

// Errors that wrap ErrEvent are about an event that cannot be sent; nothing of it has been sent.
var ErrEvent = errors.New("sse: not a valid event")

// maxID bounds the ID: the client sends it back in its header, which has a limit.
const maxID = 256

// AppendEvent adds e to b in the format of an event stream (WHATWG HTML section 9.2.5). On an error
// it adds nothing. A line end in Name or ID would begin a field of its own: a client that chooses
// either could forge whole events.
func AppendEvent(b []byte, e Event) ([]byte, error) {
	switch {
	case strings.ContainsAny(e.Name, "\r\n"):
		return b, fmt.Errorf("%w: line end in the name %q", ErrEvent, e.Name)
	case !validID(e.ID):
		return b, fmt.Errorf("%w: bad ID %.300q", ErrEvent, e.ID)
	case e.Retry < 0:
		return b, fmt.Errorf("%w: negative retry %v", ErrEvent, e.Retry)
	}
	if e.ID != "" {
		b = append(b, "id: "...)
		b = append(append(b, e.ID...), '\n')
	}
	if e.Name != "" {
		b = append(b, "event: "...)
		b = append(append(b, e.Name...), '\n')
	}
	if e.Retry > 0 {
		b = append(b, "retry: "...)
		b = strconv.AppendInt(b, int64((e.Retry-1)/time.Millisecond)+1, 10)
		b = append(b, '\n')
	}
	if e.Data != nil {
		b = appendLines(b, "data: ", e.Data)
	}
	return append(b, '\n'), nil
}

// AppendComment adds text as a comment, which clients ignore.
func AppendComment(b []byte, text string) []byte { return append(appendLines(b, ": ", text), '\n') }

// appendLines adds each line of text after a prefix. CR, LF and CRLF end a line, as they do for the
// client. The text after the last of them, even if empty, is one more line: so the client's text
// has as many line ends as ours.
func appendLines[T string | []byte](b []byte, prefix string, text T) []byte {
	b = append(b, prefix...)
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '\r':
			if i+1 < len(text) && text[i+1] == '\n' {
				i++
			}
			fallthrough
		case '\n':
			b = append(b, '\n')
			b = append(b, prefix...)
		default:
			b = append(b, c)
		}
	}
	return append(b, '\n')
}

// validID reports whether a client keeps id and can send it back. It ignores an ID with NUL
// (section 9.2.6).
func validID(id string) bool {
	return len(id) <= maxID && !strings.ContainsAny(id, "\r\n\x00") && utf8.ValidString(id)
}
