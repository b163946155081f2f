package cgi

import (
	"cmp"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/ascii"
	"github.com/lwango/lwango/internal/http1"
)

// special are the names that finish treats in a way of their own, besides those that begin with X or
// with Proxy.
var special = http1.Steering | http1.NamesOf("Status", "Content-Type", "Location")

// finish finds out what the field lines mean. It cuts names and values from one copy of the header.
func (h *Header) finish() *Error {
	h.Length = -1
	text := string(h.buf[:h.line])
	location, lengths, connection, mediaType := false, 0, false, ""
	for _, l := range h.lines {
		name, value := text[l.name:l.colon], text[l.value:l.end]
		switch c := ascii.Lower(name[0]); {
		case c != 'x' && c != 'p' && !http1.MayHave(special, name):
			h.Fields = append(h.Fields, Field{name, value})
		case ascii.EqualFold(name, "status"):
			if e := h.status(value); e != nil {
				return e
			}
		case ascii.EqualFold(name, "content-length"):
			// A value that is no number is dropped, and the length of the body is what comes. If
			// two lengths differ, an attacker may have made the program write one of them; and
			// whichever we chose, another reader may choose the other.
			n := length(value)
			if lengths > 0 && n != h.Length {
				return ErrLengthTwice
			}
			h.Length = n
			lengths++
		case ascii.EqualFold(name, "content-type"):
			// There is one of it (RFC 3875 section 6.3). Of two, one recipient takes the first and
			// sees text, and another takes the last and sees a page with scripts. So only the first
			// one is sent on. An empty one does not count.
			switch {
			case value == "":
			case mediaType == "":
				mediaType = value
				h.Fields = append(h.Fields, Field{name, value})
			case value != mediaType:
				h.SecondType = value
			}
		case ascii.EqualFold(name, "transfer-encoding"):
			h.Coding = value
			if value == "" {
				h.Coding = "identity"
			}
		case ascii.EqualFold(name, "connection"):
			connection = true
		case http1.HopByHop(name), ascii.EqualFold(name, "trailer"),
			ascii.HasPrefixFold(name, "proxy-"):
			// They are about the connection, and the program has no say there: the server frames,
			// keeps and upgrades the client's.
		case ascii.HasPrefixFold(name, "x-accel-"):
			// All of these are between program and server, so the client gets none, not even those
			// that we do not know.
			switch {
			case ascii.EqualFold(name, "x-accel-redirect"):
				h.Redirect = value
			case ascii.EqualFold(name, "x-accel-expires"):
				h.Expires = cmp.Or(h.Expires, value)
			case ascii.EqualFold(name, "x-accel-buffering") && ascii.EqualFold(value, "yes"):
				h.Buffering = Buffered
			case ascii.EqualFold(name, "x-accel-buffering") && ascii.EqualFold(value, "no"):
				h.Buffering = Unbuffered
			}
		case ascii.EqualFold(name, "x-sendfile"):
			h.Sendfile = value // never sent on: it shows where files lie
		default:
			if ascii.EqualFold(name, "location") && value != "" {
				location = true
			}
			h.Fields = append(h.Fields, Field{name, value})
		}
	}
	if lengths > 0 && h.Coding != "" {
		return ErrFraming
	}
	if connection {
		h.dropNamed(text)
	}
	switch {
	case h.Status != 0:
	case location:
		h.Status = 302 // RFC 3875 sections 6.2.3 and 6.2.4
	default:
		h.Status = 200 // RFC 3875 section 6.3.3
	}
	return nil
}

// statusLine reads a status line (RFC 9112 section 4), which is not of CGI. Its version is that of the
// client's request where the program is uWSGI: that may be HTTP/2.0.
func (h *Header) statusLine(text string) *Error {
	version, rest, _ := strings.Cut(text[len("HTTP/"):], " ")
	if version == "" || strings.Trim(version, "0123456789.") != "" {
		return ErrStatusLine
	}
	if !http1.ValidFieldValue(rest) {
		return ErrValue
	}
	n, reason, ok := statusCode(rest)
	if !ok {
		return ErrStatusLine
	}
	h.Status, h.Reason = n, reason
	return nil
}

// statusCode reads three digits, and a reason behind a space. 101 is none: the program would go on in
// another protocol.
func statusCode(text string) (n int, reason string, ok bool) {
	if len(text) < 3 || len(text) > 3 && text[3] != ' ' && text[3] != '\t' {
		return 0, "", false
	}
	for _, c := range []byte(text[:3]) {
		if c < '0' || c > '9' {
			return 0, "", false
		}
		n = n*10 + int(c-'0')
	}
	return n, ascii.TrimOWS(text[3:]), n >= 100 && n != 101
}

// status reads Status: three digits, and a reason behind a space. One above 599 has no class (RFC
// 9110 section 15), but programs use them, and the proxy passes them on as well.
//
// After 1xx a client would wait for another response, for ever: CGI has one header, and what a
// script writes after `http_response_code(103)` is its body. So 1xx is dropped, as if the script
// had not set it.
func (h *Header) status(value string) *Error {
	n, reason, ok := statusCode(value)
	switch {
	case !ok:
		return ErrStatus
	case n < 200:
	case h.Status != 0 && h.Status != n:
		return ErrStatusTwice
	case h.Status == 0:
		h.Status, h.Reason = n, reason
	}
	return nil
}

// length returns the number that a Content-Length holds, or -1. Lists and signs are not allowed
// (RFC 9112 section 6.3 (5)).
func length(value string) int64 {
	for _, c := range []byte(value) {
		if c < '0' || c > '9' {
			return -1
		}
	}
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// dropNamed removes the fields that the Connection fields name.
func (h *Header) dropNamed(text string) {
	for _, l := range h.lines {
		if !ascii.EqualFold(text[l.name:l.colon], "connection") {
			continue
		}
		options := text[l.value:l.end]
		if ascii.EqualFold(options, "close") || ascii.EqualFold(options, "keep-alive") {
			continue
		}
		kept := h.Fields[:0]
		for _, f := range h.Fields {
			if !ascii.HasToken(options, f.Name) {
				kept = append(kept, f)
			}
		}
		clear(h.Fields[len(kept):])
		h.Fields = kept
	}
}
