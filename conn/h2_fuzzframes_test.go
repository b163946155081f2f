package conn_test

import (
	"strings"

	"github.com/lwango/lwango/internal/wire/http2"
)

// script2 makes frames of the bytes that a fuzzer gives.
type script2 struct{ data []byte }

func (s *script2) more() bool { return len(s.data) > 0 }

// below returns a number below n; 0 behind the end.
func (s *script2) below(n int) int {
	if len(s.data) == 0 {
		return 0
	}
	b := s.data[0]
	s.data = s.data[1:]
	return int(b) % n
}

func pick2[T any](s *script2, all []T) T { return all[s.below(len(all))] }

// fields2 is a part of a request. why is not empty where the two servers judge it differently: then
// it says why ours refuses what net/http may accept.
type fields2 struct {
	fields []string
	why    string
}

// heads2 are pseudo-header fields.
var heads2 = []fields2{
	{fields: []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a"}},
	{fields: []string{":method", "POST", ":scheme", "http", ":path", "/p?q=1&r", ":authority",
		"a:8080"}},
	{fields: []string{":authority", "a", ":path", "/a%20b/%C3%A4", ":scheme", "http", ":method",
		"PUT"}},
	{fields: []string{":method", "HEAD", ":scheme", "http", ":path", "/h", ":authority", "a"}},
	{fields: []string{":method", "OPTIONS", ":scheme", "http", ":path", "/o", ":authority", "a"}},
	{fields: []string{":method", "PURGE", ":scheme", "http", ":path", "//x/../y/", ":authority",
		"[::1]"}},
	{fields: []string{":method", "GET", ":scheme", "http", ":path", "/", "host", "a"}},
	{fields: []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", "host",
		"a"}},
	// Malformed (RFC 9113 section 8.3).
	{fields: []string{":method", "GET", ":scheme", "http", ":path", "", ":authority", "a"}},
	{fields: []string{":method", "GET", ":scheme", "http", ":authority", "a"}},
	{fields: []string{":method", "GET", ":path", "/", ":authority", "a"}},
	{fields: []string{":scheme", "http", ":path", "/", ":authority", "a"}},
	{fields: []string{":method", "", ":scheme", "http", ":path", "/", ":authority", "a"}},
	{fields: []string{":method", "GET", ":method", "GET", ":scheme", "http", ":path", "/",
		":authority", "a"}},
	{fields: []string{":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", ":x",
		"y"}},
	{fields: []string{":method", "GET", ":scheme", "http", "x", "y", ":path", "/", ":authority", "a"}},
	{fields: []string{":method", "GET", ":scheme", "http", ":path", "/", ":status", "200"}},
	{fields: []string{":method", "GET", ":scheme", "ftp", ":path", "/", ":authority", "a"}},
	{fields: []string{":method", "GET", ":scheme", "http", ":path", "a", ":authority", "a"}},
	{fields: []string{":method", "CONNECT", ":scheme", "http", ":path", "/", ":authority", "a"}},
	{fields: nil},
	{why: "without TLS no https is served here: 421", fields: []string{
		":method", "GET", ":scheme", "https", ":path", "/", ":authority", "a"}},
	{why: "no host (RFC 9113 section 8.3.1, RFC 9110 section 7.2)", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/"}},
	{why: "an empty host", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/", ":authority", ""}},
	{why: "two hosts (RFC 9113 section 8.3.1)", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a", "host", "b"}},
	{why: "userinfo (RFC 9113 section 8.3.1)", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/", ":authority", "u@a"}},
	{why: "a space in the host", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a b"}},
	{why: "no port is like that", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/", ":authority", "a:b"}},
	{why: "an absolute path is none (RFC 9113 section 8.3.1)", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "http://b/", ":authority", "a"}},
	{why: "* is for OPTIONS (RFC 9113 section 8.3.1)", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "*", ":authority", "a"}},
	{why: "it would be another request in HTTP/1.1", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/ HTTP/1.1", ":authority", "a"}},
	{why: "a control character", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/\x01", ":authority", "a"}},
	{why: "no percent-encoding is like that", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/%zz", ":authority", "a"}},
	{why: "a fragment is no part of a target", fields: []string{
		":method", "GET", ":scheme", "http", ":path", "/a#b", ":authority", "a"}},
	{why: "a method is a token", fields: []string{
		":method", "G T", ":scheme", "http", ":path", "/", ":authority", "a"}},
	{why: "there are no tunnels: 405", fields: []string{
		":method", "CONNECT", ":authority", "a:80"}},
}

// odd2 are fields behind these.
var odd2 = []fields2{
	{}, {}, {fields: []string{"x-a", "1"}}, {fields: []string{"x-a", "1", "x-b", "2", "x-a", "3"}},
	{fields: []string{"cookie", "a=1", "x-a", "1", "cookie", "b=2"}}, {fields: []string{"x-e", ""}},
	{fields: []string{"x-o", "\xff\x80"}}, {fields: []string{"x-t", "a\tb"}},
	{fields: []string{"te", "trailers"}},
	{fields: []string{"x_y", "1"}}, {fields: []string{"x!#$%&'*+.^`|~", "1"}},
	{fields: []string{"x-l", strings.Repeat("v", 300)}}, {fields: []string{"content-length", "0"}},
	{fields: []string{"content-length", "100"}},
	{fields: []string{"content-length", "7"}}, // see open
	{fields: []string{"trailer", "x-t"}}, {fields: []string{"expect", "100-continue"}},
	{fields: []string{"priority", "u=1, i"}}, {fields: []string{"accept-encoding", "gzip"}},
	// Malformed (RFC 9113 section 8.2).
	{fields: []string{"X-Up", "1"}}, {fields: []string{"x y", "1"}}, {fields: []string{"x:y", "1"}},
	{fields: []string{"", "1"}}, {fields: []string{"x", "a\rb"}}, {fields: []string{"x", "a\nb"}},
	{fields: []string{"x", "a\x00b"}}, {fields: []string{"x\xe4", "1"}},
	{fields: []string{"connection", "close"}}, {fields: []string{"keep-alive", "1"}},
	{fields: []string{"proxy-connection", "close"}},
	{fields: []string{"transfer-encoding", "chunked"}},
	{fields: []string{"upgrade", "h2c"}}, {fields: []string{"te", "gzip"}},
	{fields: []string{":path", "/"}},
	{why: "a space in front (RFC 9113 section 8.2.1)", fields: []string{"x", " a"}},
	{why: "a tab behind (RFC 9113 section 8.2.1)", fields: []string{"x", "a\t"}},
	{why: "no length", fields: []string{"content-length", "+7"}},
	{why: "two lengths", fields: []string{"content-length", "7", "content-length", "0"}},
	{why: "two lengths in one", fields: []string{"content-length", "7, 7"}},
	{why: "too large a length", fields: []string{"content-length", "99999999999999999999"}},
	{why: "more is expected than can be met: 417", fields: []string{"expect", "x"}},
}

// trailers2 are fields behind the content.
var trailers2 = [][]string{
	{"x-t", "u"}, nil, {"x-t", "u", "x-v", ""}, {":path", "/"}, {"X-T", "u"}, {"x", "a\nb"},
	{"x y", "u"}, {"content-length", "1"},
}

// frame2 is a frame that belongs to no request, or to stream 1.
type frame2 struct {
	kind    http2.Type
	flags   uint8
	id      uint32
	payload string
}

var pings2 = []frame2{
	{http2.Ping, 0, 0, "12345678"}, {http2.Ping, http2.Ack, 0, "12345678"},
	{http2.Ping, 0xfe, 0, "12345678"},
	{http2.Ping, 0, 0, "1234567"}, {http2.Ping, 0, 1, "12345678"},
}

var settings2 = []frame2{
	{http2.SettingsFrame, 0, 0, ""}, {http2.SettingsFrame, 0, 0, "\x00\x03\x00\x00\x00\x01"},
	{http2.SettingsFrame, 0, 0, "\x00\x05\x00\xff\xff\xff"},
	{http2.SettingsFrame, 0, 0, "\x00\x06\x00\x01\x00\x00"},
	{http2.SettingsFrame, 0, 0, "\x12\x34\x00\x00\x00\x01"},
	{http2.SettingsFrame, 0, 0, "\x00\x01\x00\x00\x00\x00"},
	{http2.SettingsFrame, 0, 0, "\x00\x01\x00\x00\x20\x00"},
	{http2.SettingsFrame, 0, 0, "\x00\x02\x00\x00\x00\x02"},
	{http2.SettingsFrame, 0, 0, "\x00\x04\x80\x00\x00\x00"},
	{http2.SettingsFrame, 0, 0, "\x00\x05\x00\x00\x3f\xff"},
	{http2.SettingsFrame, 0, 0, "\x00\x08\x00\x00\x00\x02"}, {http2.SettingsFrame, 0, 0, "12345"},
	{http2.SettingsFrame, 0, 1, ""}, {http2.SettingsFrame, http2.Ack, 0, "123456"},
}

var others2 = []frame2{
	{0x42, 0xff, 0, "unknown"}, {0x42, 0, 1, "unknown"}, {0x42, 0, 2, "unknown"},
	{0xfe, 1, 1 << 30, ""},
	{http2.PriorityUpdate, 0, 0, "\x00\x00\x00\x01u=0"},
	{http2.PriorityUpdate, 0, 0, "\x00\x00\x03\xe9u=7, i"},
	{http2.PushPromise, http2.EndHeaders, 1, "\x00\x00\x00\x02"},
	{http2.Continuation, http2.EndHeaders, 1, ""},
	{http2.Data, 0, 0, "x"}, {http2.Headers, http2.EndHeaders, 0, ""},
	{http2.RSTStream, 0, 0, "\x00\x00\x00\x08"},
	{http2.RSTStream, 0, 1, "\x00\x00\x08"}, {http2.RSTStream, 0, 2, "\x00\x00\x00\x08"},
	{http2.Data, 0, 2, "x"}, {http2.Headers, http2.EndHeaders | http2.EndStream, 2, "\x82\x84\x86"},
	{http2.WindowUpdate, 0, 2, "\x00\x00\x00\x01"}, {http2.WindowUpdate, 0, 0, "\x00\x00\x01"},
	{http2.Data, http2.Padded, 1, "\x05abc"}, {http2.Data, http2.Padded, 1, ""},
	{http2.Headers, 0, 2001, "\x82"}, // and a PING in the middle of the block
}

// blocks2 are field blocks that are none, or have what encoders seldom make.
var blocks2 = []string{
	"\x82\x84\x86\x41\x01a", "\x20\x82\x84\x86\x41\x01a", "\x3f\xe1\x1f\x82\x84\x86\x41\x01a",
	"\x82\x84\x86\x41\x01a\x40\x01x\x01y\xbe\x7e\x01z", "\x82\x84\x86\x11\x01a",
	"\x82\x84\x86\x41\x81\x1f",
	"\x3f\xe2\x1f\x82\x84\x86\x41\x01a", "\x80", "\xff\xff\xff\xff\xff",
	"\x82\x84\x86\xff\x80\x80\x80\x80\x80\x80\x80\x80\x80",
	"\x82\x84\x86\x41\x05a", "\x82\x84\x86\x41\x81\xff", "\x82\x84\x86\x41\x01a\x20",
	"\x82\x84\x86\x41\x84\xff\xff\xff\xff",
}
