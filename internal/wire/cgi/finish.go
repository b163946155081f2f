package cgi

import (
	"cmp"
	"math"
	"strings"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// controlNames are the names that finish treats specially, besides those that begin with X or with
// Proxy.
var controlNames = http1.Steering | http1.NamesOf("Status", "Content-Type", "Location")

// finish interprets the field lines. Names and values are parts of text, a copy of the header.
func (h *Header) finish(text string) *Error {
	h.Length = -1
	for _, l := range h.lines {
		name, value := text[l.name:l.colon], text[l.value:l.end]
		switch c := ascii.Lower(name[0]); {
		case c != 'x' && c != 'p' && !http1.MayHave(controlNames, name):
		case len(name) == len("Content-Type") && h.mediaType == "" &&
			ascii.EqualFold(name, "Content-Type"):
			// There is one of it (RFC 3875 section 6.3). Of two, one recipient takes the first and
			// sees text, and another takes the last and sees a page with scripts. So only the first
			// one is sent on. An empty one does not count.
			if h.mediaType = value; value == "" {
				continue
			}
		default:
			if on, e := h.controlField(name, value); e != nil {
				return e
			} else if !on {
				continue
			}
		}
		h.Fields = append(h.Fields, Field{name, value})
	}
	if h.Coding != "" && h.lengths {
		return ErrFraming
	}
	if h.connection {
		h.dropNamed(text)
	}
	switch {
	case h.Status != 0:
	case h.location:
		h.Status = 302 // RFC 3875 sections 6.2.3 and 6.2.4
	default:
		h.Status = 200 // RFC 3875 section 6.3.3
	}
	return nil
}

// controlField handles a field that may be for the server, and reports whether it is passed on.
func (h *Header) controlField(name, value string) (on bool, e *Error) {
	switch {
	case ascii.EqualFold(name, "content-length"):
		// A value that is no number is dropped, and the body ends with the response. If two lengths
		// differ, an attacker may have made the program write one of them; and whichever we chose,
		// another reader may choose the other.
		n, digits := length(value)
		if h.lengths && n != h.Length {
			return false, ErrLengthTwice
		}
		h.Length, h.Digits, h.lengths = n, digits, true
	case ascii.EqualFold(name, "status"):
		return false, h.status(value)
	default:
		return h.rareControlField(name, value), nil
	}
	return false, nil
}

// rareControlField is controlField for the fields that few programs send.
//
//go:noinline
func (h *Header) rareControlField(name, value string) (on bool) {
	switch {
	case ascii.EqualFold(name, "content-type"):
		if value != "" && value != h.mediaType {
			h.SecondType, h.HasControl = value, true
		}
	case ascii.EqualFold(name, "transfer-encoding"):
		h.Coding, h.HasControl = cmp.Or(value, "identity"), true
	case ascii.EqualFold(name, "connection"):
		h.connection = true
	case http1.HopByHop(name), ascii.EqualFold(name, "trailer"),
		ascii.HasPrefixFold(name, "proxy-"):
		// They are about the client's connection, which the server alone frames, keeps and upgrades.
	case ascii.HasPrefixFold(name, "x-accel-"):
		// All of these are between program and server, so the client gets none, not even those
		// that we do not know.
		h.HasControl = true
		switch {
		case ascii.EqualFold(name, "x-accel-redirect"):
			h.Redirect = value
		case ascii.EqualFold(name, rfc9111.FieldXAccelExpires):
			h.Expires = cmp.Or(h.Expires, value)
		case ascii.EqualFold(name, "x-accel-buffering") && ascii.EqualFold(value, "yes"):
			h.Buffering = Buffered
		case ascii.EqualFold(name, "x-accel-buffering") && ascii.EqualFold(value, "no"):
			h.Buffering = Unbuffered
		}
	case ascii.EqualFold(name, "x-sendfile"):
		h.Sendfile, h.HasControl = value, true // never sent on: it reveals where files are
	default:
		if ascii.EqualFold(name, "location") && value != "" {
			h.location = true
		}
		return true
	}
	return false
}

// statusLine reads a status line (RFC 9112 section 4), which is not of CGI. Its version is that of
// the client's request where the program is uWSGI: that may be HTTP/2.0.
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

// statusCode reads three digits, and a reason after a space. It refuses 101: the program would go
// on in another protocol.
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

// status reads Status: three digits, and a reason after a space. A status above 599 has no class
// (RFC 9110 section 15), but programs use them, and the proxy passes them on as well.
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

// length returns the number that a Content-Length holds, or -1, and its digits, of which the first
// is no zero but of 0 itself. Lists and signs are not allowed (RFC 9112 section 6.3 (5)).
func length(value string) (n int64, digits string) {
	for len(value) > 1 && value[0] == '0' {
		value = value[1:]
	}
	for _, c := range []byte(value) {
		d := int64(c) - '0'
		if d < 0 || d > 9 || n > (math.MaxInt64-d)/10 {
			return -1, ""
		}
		n = n*10 + d
	}
	if value == "" {
		return -1, ""
	}
	return n, value
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
