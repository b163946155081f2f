package http2

import (
	"bytes"
	"strconv"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Response takes the status off f, which has the fields of an answer or of an interim response, and
// returns it with the length of the content, -1 if no field says that. ok is false if the answer is
// malformed (RFC 9113 sections 8.1.1, 8.2 and 8.3.2), or could be read in two ways once it goes on
// by HTTP/1.1.
func (f *Fields) Response() (status int, length int64, ok bool) {
	if f.kinds&(malformed|badText|misplaced) != 0 || len(f.List) == 0 ||
		string(f.List[0].Name.Of(f.Buf)) != ":status" {
		return 0, 0, false
	}
	text := f.List[0].Value.Of(f.Buf)
	if len(text) != 3 {
		return 0, 0, false
	}
	for _, c := range text {
		if c < '0' || c > '9' {
			return 0, 0, false
		}
		status = status*10 + int(c-'0')
	}
	// Nothing can change to another protocol (section 8.6).
	if status < 100 || status == 101 {
		return 0, 0, false
	}
	f.List = f.List[:copy(f.List, f.List[1:])]
	length = -1
	for _, field := range f.List {
		name := field.Name.Of(f.Buf)
		if f.Buf[field.Name.Start] == ':' {
			return 0, 0, false
		}
		if string(name) == "content-length" {
			n, err := strconv.ParseUint(string(field.Value.Of(f.Buf)), 10, 63)
			if err != nil || length >= 0 && length != int64(n) {
				return 0, 0, false
			}
			length = int64(n)
		}
	}
	return status, length, true
}

// Trailer reports whether f is a well-formed trailer section of an answer.
func (f *Fields) Trailer() bool { return f.kinds&(malformed|badText|pseudo) == 0 }

// Indexes in the static table (RFC 7541 appendix A).
const (
	atAuthority  = 1
	atMethod     = 2
	atPostMethod = 3
	atPath       = 4
	atHTTP       = 6
	atHTTPS      = 7
)

// AppendRequest encodes the head of a request, which is well-formed text of HTTP/1.1 with Host as
// its first field, if it has one. Fields that speak of the connection stay behind (RFC 9113 section
// 8.2.2).
func AppendRequest(b, head []byte, secure bool) []byte {
	line, rest, _ := bytes.Cut(head, crlf)
	method, target, _ := bytes.Cut(line, space)
	target = target[:len(target)-len(" HTTP/1.1")]
	switch string(method) {
	case "GET":
		b = append(b, 0x80|atMethod)
	case "POST":
		b = append(b, 0x80|atPostMethod)
	default:
		b = appendNamed(b, atMethod, method)
	}
	if secure {
		b = append(b, 0x80|atHTTPS)
	} else {
		b = append(b, 0x80|atHTTP)
	}
	b = appendNamed(b, atPath, target)
	for first := true; len(rest) > len(crlf); first = false {
		line, rest, _ = bytes.Cut(rest, crlf)
		name, value, _ := bytes.Cut(line, colon)
		value = ascii.TrimOWS(value)
		switch {
		case first && ascii.EqualFold(name, "Host"):
			b = appendNamed(b, atAuthority, value)
		case http1.HopByHop(string(name)) && !ascii.EqualFold(name, "TE"), // which says "trailers" alone
			ascii.EqualFold(name, "Transfer-Encoding"):
		default:
			b = appendName(b, name)
			b = append(appendInteger(b, 0, 7, uint(len(value))), value...)
		}
	}
	return b
}

var crlf, space, colon = []byte("\r\n"), []byte(" "), []byte(":")

// appendNamed encodes a field whose name has that index.
func appendNamed(b []byte, name byte, value []byte) []byte {
	b = append(b, name)
	b = appendInteger(b, 0, 7, uint(len(value)))
	return append(b, value...)
}

// AppendBlock appends a field block in a Headers frame, and in as many Continuation frames as it
// takes if frames may have no more than most octets. flags is EndStream or 0.
func AppendBlock(b []byte, stream uint32, flags uint8, block []byte, most int) []byte {
	for t := Headers; ; t, flags = Continuation, 0 {
		n := min(len(block), most)
		if n == len(block) {
			flags |= EndHeaders
		}
		b = append(AppendHeader(b, t, flags, stream, n), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			return b
		}
	}
}
