package sse

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Event is what a client's EventSource dispatches. What is empty in it is not sent.
type Event struct {
	// ID is what a client that comes back names as the last event it has got; see Stream.LastEventID. It is UTF-8 of at
	// most 256 bytes without line ends and NUL.
	ID string

	// Name is the event's type, without line ends; "message" where it is empty.
	Name string

	// Data is the text, UTF-8, of any number of lines. Line ends of all kinds arrive as LF: the format has no way to
	// tell them apart. Nil is an event that is not dispatched, though its ID and Retry count.
	Data []byte

	// Retry is how long the client is to wait before it comes back after the connection has ended. It is sent in whole
	// milliseconds, rounded up.
	Retry time.Duration
}

// ErrEvent is wrapped by the errors of events that cannot be sent as they are. Nothing of them has been sent.
var ErrEvent = errors.New("sse: not a valid event")

// maxID bounds what a client is asked to send back in its header, which is bounded itself.
const maxID = 256

// AppendEvent adds e to b in the format of an event stream (WHATWG HTML section 9.2.5). On an error it adds nothing. A
// line end in Name or ID would begin a field of its own: whoever could choose either could forge whole events.
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
func AppendComment(b []byte, text string) []byte {
	return append(appendLines(b, ": ", text), '\n')
}

// appendLines adds each line of text behind a prefix. CR, LF and CRLF end a line, as they do for the client; what
// follows the last of them is one more line, if an empty one: so the client's text has as many line ends as ours.
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

// validID reports whether a client keeps id, and can send it back. An ID with NUL it ignores (section 9.2.6).
func validID(id string) bool {
	return len(id) <= maxID && !strings.ContainsAny(id, "\r\n\x00") && utf8.ValidString(id)
}
