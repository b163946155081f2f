package http2

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/rand/v2"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Pseudo are the pseudo-header fields of a request (RFC 9113 section 8.3.1, RFC 8441 section 4), as
// parts of Fields.Buf; empty if they are missing.
type Pseudo struct {
	Method, Scheme, Authority, Path, Protocol http1.Span
}

// Request takes the pseudo-header fields off f, and reports whether the request is well-formed as
// far as HTTP/2 is concerned (RFC 9113 sections 8.2 and 8.3). One that is not ends its stream with
// PROTOCOL_ERROR. trailer: these are the fields behind the content.
func (f *Fields) Request(trailer bool) (p Pseudo, ok bool) {
	if f.kinds&(malformed|misplaced) != 0 {
		return p, false
	}
	n := 0
	for ; n < len(f.List) && f.Buf[f.List[n].Name.Start] == ':'; n++ {
		part := p.part(f.List[n].Name.Of(f.Buf))
		if trailer || part == nil || part.End != 0 {
			return p, false
		}
		*part = f.List[n].Value
	}
	f.List = f.List[:copy(f.List, f.List[n:])] // the memory in front is kept
	if trailer {
		return p, f.kinds&badText == 0
	}
	if p.Method.Len() == 0 {
		return p, false
	}
	if string(p.Method.Of(f.Buf)) == "CONNECT" && p.Protocol.End == 0 {
		return p, p.Scheme.End == 0 && p.Path.End == 0 && p.Authority.Len() > 0
	}
	return p, p.Scheme.Len() > 0 && p.Path.Len() > 0 &&
		(p.Protocol.End == 0 || string(p.Method.Of(f.Buf)) == "CONNECT")
}

func (p *Pseudo) part(name []byte) *http1.Span {
	switch string(name) {
	case ":method":
		return &p.Method
	case ":scheme":
		return &p.Scheme
	case ":authority":
		return &p.Authority
	case ":path":
		return &p.Path
	case ":protocol":
		return &p.Protocol
	}
	return nil
}

// allowed reports whether a field may stand in a message of HTTP/2 (RFC 9113 sections 8.2.1 and
// 8.2.2). Whatever could be a line of its own, or speak of the connection, to the next server that
// gets the message by HTTP/1.1 is refused.
func allowed(name, value []byte) bool {
	if len(name) == 0 {
		return false
	}
	for _, c := range name {
		if 'A' <= c && c <= 'Z' || c <= ' ' || c >= 0x7f || c == ':' {
			return false
		}
	}
	if n := len(value); n > 0 && (isSpace(value[0]) || isSpace(value[n-1])) ||
		bytes.IndexByte(value, '\n') >= 0 || bytes.IndexByte(value, '\r') >= 0 ||
		bytes.IndexByte(value, 0) >= 0 {
		return false
	}
	switch string(name) {
	case "connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade":
		return false
	case "te":
		return ascii.EqualFold(string(value), "trailers") // a token (RFC 9110 section 10.1.4)
	}
	return true
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' }

// Head makes h, after Reset, the head of the request. size is how long the field block was; body
// says that content may follow. The error is the status that the request is answered with.
func (f *Fields) Head(h *http1.Head, p *Pseudo, size int, body bool) *http1.Error {
	target := p.Path
	if p.Protocol.End != 0 {
		if string(p.Protocol.Of(f.Buf)) != "websocket" {
			return errProtocol
		}
		f.upgrade(p)
		body = false // what follows is the WebSocket
	} else if p.Path.End == 0 { // CONNECT
		target = p.Authority
	}
	if scheme := p.Scheme.Of(f.Buf); p.Scheme.End != 0 {
		if h.Secure = string(scheme) == "https"; !h.Secure && string(scheme) != "http" {
			return http1.ErrScheme
		}
	}
	if e := h.Begin(f.Buf, p.Method, target, p.Authority); e != nil {
		return e
	}
	if f.kinds&badText != 0 {
		for _, field := range f.List {
			if e := http1.CheckField(field.Name.Of(f.Buf), field.Value.Of(f.Buf)); e != nil {
				return e
			}
		}
	}
	cookies := 0
	for i := range f.List {
		field := &f.List[i]
		name := field.Name.Of(f.Buf)
		switch string(name) {
		case "host":
			// Next to :authority it must say the same (RFC 9113 section 8.3.1).
			if p.Authority.End != 0 {
				if !bytes.EqualFold(field.Value.Of(f.Buf), p.Authority.Of(f.Buf)) {
					return http1.ErrHost
				}
				continue
			}
		case "priority":
			f.Priority = field.Value
		case "cookie": // each pair may stand in a field of its own
			if cookies++; cookies > 1 {
				continue
			}
			if f.joinCookies(i) {
				field = &f.List[i]
			}
		}
		if e := h.Add(f.Buf, int(field.Name.Start), int(field.Name.End), int(field.Value.End)); e != nil {
			return e
		}
	}
	return h.End(size, body)
}

var errProtocol = &http1.Error{Status: 501,
	Reason: "an extended CONNECT for another protocol than websocket"}

// upgrade makes an extended CONNECT (RFC 8441 section 5) the request that opens a WebSocket in
// HTTP/1.1, which is what handlers, rules and other servers know. The key, which HTTP/2 has no use
// for, is as random as RFC 6455 section 4.1 wants it.
func (f *Fields) upgrade(p *Pseudo) {
	var key [16]byte
	binary.NativeEndian.PutUint64(key[:], rand.Uint64())
	binary.NativeEndian.PutUint64(key[8:], rand.Uint64())
	p.Method.Start = uint32(len(f.Buf))
	f.Buf = append(f.Buf, "GET"...)
	p.Method.End = uint32(len(f.Buf))
	n := 0
	for _, field := range f.List {
		if string(field.Name.Of(f.Buf)) != "sec-websocket-key" {
			f.List[n] = field
			n++
		}
	}
	f.List = f.List[:n]
	for _, field := range [...][2]string{{"connection", "Upgrade"}, {"upgrade", "websocket"},
		{"sec-websocket-key", base64.StdEncoding.EncodeToString(key[:])}} {
		start := uint32(len(f.Buf))
		f.Buf = append(append(append(append(f.Buf, field[0]...), ':'), field[1]...), '\n')
		name := start + uint32(len(field[0]))
		f.List = append(f.List, http1.Field{Name: http1.Span{Start: start, End: name},
			Value: http1.Span{Start: name + 1, End: uint32(len(f.Buf) - 1)}})
	}
}

// joinCookies makes field i, the first Cookie field, one that has the pairs of all of them (RFC
// 9113 section 8.2.3), and reports whether there are several.
func (f *Fields) joinCookies(i int) (several bool) {
	for _, field := range f.List[i+1:] {
		if string(field.Name.Of(f.Buf)) != "cookie" {
			continue
		}
		if !several {
			several = true
			start := len(f.Buf)
			f.Buf = append(f.Buf, "cookie:"...)
			f.Buf = append(f.Buf, f.List[i].Value.Of(f.Buf)...)
			f.List[i].Name = http1.Span{Start: uint32(start), End: uint32(start + len("cookie"))}
		}
		f.Buf = append(append(f.Buf, "; "...), field.Value.Of(f.Buf)...)
	}
	if several {
		start := f.List[i].Name.End + 1
		f.List[i].Value = http1.Span{Start: start, End: uint32(len(f.Buf))}
		f.Buf = append(f.Buf, '\n')
	}
	return several
}
