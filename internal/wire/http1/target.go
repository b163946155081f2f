package http1

import (
	"bytes"

	"github.com/lwango/lwango/internal/base/ascii"
)

// requestLine parses buf[start:end], without its CRLF. RFC 9112 section 3 allows to split it at any
// run of white space; that leniency lets a space inside the target move the version, so exactly one
// SP separates the parts.
//
// The order of the checks decides which answer a line gets that is wrong twice: a version we do not
// speak comes before a method that is none, since in another version it could be one.
func (h *Head) requestLine(buf []byte, start, end int) *Error {
	h.ContentLength = -1
	line := buf[start:end]
	i := tokenLen(line)
	h.Method = parseMethod(line[:i])
	h.Name = Span{uint32(start), uint32(start + i)}
	if i == 0 || i == len(line) || line[i] != ' ' {
		return ErrMethodSyntax
	}
	rest := line[i+1:]

	// The version has one length, so it is found from the end. HTTP/0.9 has none and gets 400 (RFC
	// 9112 appendix C.1).
	const suffix = len(" HTTP/1.1")
	if len(rest) < suffix {
		return ErrVersion
	}
	v := rest[len(rest)-suffix:]
	if string(v[:6]) != " HTTP/" || class[v[6]]&isDigit == 0 || v[7] != '.' ||
		class[v[8]]&isDigit == 0 {
		return ErrVersion
	}
	if v[6] != '1' {
		return ErrVersionMajor
	}
	h.Minor = min(v[8]-'0', 1)
	if h.Method == 0 {
		return ErrMethod
	}

	target := rest[:len(rest)-suffix]
	if len(target) == 0 || targetLen(target) != len(target) {
		return ErrTarget
	}
	return h.target(buf, start+i+1, end-suffix)
}

// target takes the request target buf[from:to], which is not empty and whose characters are valid.
func (h *Head) target(buf []byte, from, to int) *Error {
	target := buf[from:to]
	h.Target = Span{uint32(from), uint32(to)}
	switch {
	case target[0] == '/' && h.Method != CONNECT:
		h.pathQuery(target, from)
	case h.Method == CONNECT: // authority-form and nothing else: RFC 9112 section 3.2.3
		// RFC 9110 section 9.3.6: without a port, 400.
		if hostLen, port, ok := parseAuthority(target); !ok || hostLen == 0 || port <= 0 {
			return ErrAuthority
		}
		h.Host = h.Target
	case len(target) == 1 && target[0] == '*':
		if h.Method != OPTIONS {
			return ErrTargetForm
		}
		h.Asterisk = true
	default:
		return h.absolute(target, from)
	}
	return nil
}

// pathQuery splits what begins at position from of the buffer at its '?'.
func (h *Head) pathQuery(s []byte, from int) {
	end := from + len(s)
	path := end
	if i := bytes.IndexByte(s, '?'); i >= 0 {
		path = from + i
		h.Query = Span{uint32(path + 1), uint32(end)}
	}
	h.Path = Span{uint32(from), uint32(path)}
}

// absolute parses an absolute-form, which every server has to accept (RFC 9112 section 3.2.2).
func (h *Head) absolute(target []byte, from int) *Error {
	var i int
	switch {
	case len(target) >= 7 && ascii.EqualFold(target[:4], "http") && string(target[4:7]) == "://":
		i = 7
	case len(target) >= 8 && ascii.EqualFold(target[:5], "https") && string(target[5:8]) == "://":
		i = 8
		h.Secure = true
	case bytes.Contains(target, []byte("://")):
		// Forwarding for another scheme would be a proxy's work.
		return ErrScheme
	default:
		return ErrTarget
	}
	authority := target[i:]
	if j := bytes.IndexAny(authority, "/?"); j >= 0 {
		authority = authority[:j]
	}
	// RFC 9110 section 4.2.1: an empty host is invalid here. Section 4.2.4: userinfo, good for
	// little but disguise, is an error; '@' is no character of a host.
	if hostLen, _, ok := parseAuthority(authority); !ok || hostLen == 0 {
		return ErrAuthority
	}
	h.Absolute = true
	h.Host = Span{uint32(from + i), uint32(from + i + len(authority))}
	i += len(authority)
	if i == len(target) && h.Method == OPTIONS {
		h.Asterisk = true // RFC 9112 section 3.2.4: how a proxy is asked for "OPTIONS *"
		return nil
	}
	h.pathQuery(target[i:], from+i)
	return nil
}
