package server

import (
	"fmt"
	"io"
	"net"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
)

// Downgrade is a request of HTTP/2 that must be neither ambiguous nor another one when a server of
// HTTP/1.1, or a FastCGI application, gets it.
type Downgrade struct {
	Name    string
	Fields  []string // names and values, besides those of POST http://test.example/x.php
	Content string
	Status  int // 0: the stream is reset; from 400 on, nothing passes; 200: what passes has Content
}

// Downgrades are such requests. Those with a pseudo-field have it in place of the usual one.
var Downgrades = []Downgrade{
	{"as usual", nil, "body", 200}, {"a length", []string{"content-length", "4"}, "body", 200},
	{"trailers", []string{"te", "trailers"}, "body", 200},
	{"the host twice", []string{"host", "test.example"}, "body", 200},
	{"a tab within", []string{"x", "a\tb"}, "body", 200},
	{"a request in the content", nil, "GET /evil HTTP/1.1\r\nHost: evil\r\n\r\n", 200},
	{"chunks in the content", nil, "0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n", 200},
	{"encoded line ends", []string{":path", "/x.php?%0d%0aevil:%20y"}, "body", 200},

	{"CR LF in a value", []string{"x", "a\r\nevil: y"}, "", 0},
	{"CR in a value", []string{"x", "a\revil: y"}, "", 0},
	{"LF in a value", []string{"x", "a\nevil: y"}, "", 0},
	{"NUL in a value", []string{"x", "a\x00"}, "", 0},
	{"a space in front", []string{"x", " a"}, "", 0}, {"a tab behind", []string{"x", "a\t"}, "", 0},
	{"LF in a name", []string{"x\nevil", "y"}, "", 0},
	{"colon in a name", []string{"evil:y", "z"}, "", 0},
	{"space in a name", []string{"content-length ", "9"}, "", 0},
	{"upper case", []string{"Evil", "y"}, "", 0},
	{"no name", []string{"", "y"}, "", 0},
	{"a byte beyond ASCII in a name", []string{"ev\xeel", "y"}, "", 0},
	{"a parenthesis in a name", []string{"e(v)il", "y"}, "", 400},
	{"transfer-encoding", []string{"transfer-encoding", "chunked"},
		"0\r\n\r\nGET /evil HTTP/1.1\r\n\r\n", 0},
	{"connection", []string{"connection", "x-forwarded-for"}, "", 0},
	{"keep-alive", []string{"keep-alive", "9"}, "", 0},
	{"upgrade", []string{"upgrade", "h2c"}, "", 0}, {"te", []string{"te", "chunked"}, "", 0},
	{"too long a length", []string{"content-length", "99"}, "body", 0},
	{"too short a length", []string{"content-length", "1"}, "body", 0},
	{"two lengths", []string{"content-length", "4", "content-length", "0"}, "body", 400},
	{"a list of lengths", []string{"content-length", "4, 4"}, "body", 400},
	{"a signed length", []string{"content-length", "+4"}, "body", 400},
	{"another host", []string{"host", "evil"}, "", 400},
	{"two hosts", []string{":authority", "", "host", "a", "host", "evil"}, "", 400},
	{"userinfo", []string{":authority", "evil@test.example"}, "", 400},
	{"a path in the host", []string{":authority", "test.example/evil"}, "", 400},
	{"a space in the host", []string{":authority", "test.example evil"}, "", 400},
	{"a space in the path", []string{":path", "/evil HTTP/1.1"}, "", 400},
	{"a tab in the path", []string{":path", "/evil\tx"}, "", 400},
	{"an absolute path", []string{":path", "http://evil/"}, "", 400},
	{"a path without a slash", []string{":path", "evil"}, "", 400},
	{"a space in the method", []string{":method", "GET /evil"}, "", 400},
	{"LF in the method", []string{":method", "GET\n"}, "", 400},
	{"LF in the path", []string{":path", "/\nevil"}, "", 400},
	{"a pseudo-field twice", []string{":path", "/a", ":path", "/evil"}, "", 0},
	{"a pseudo-field behind", []string{"x", "y", ":path", "/evil"}, "", 0},
}

// SendDowngrade sends the request on a connection of its own, and returns the status of the answer,
// 0 if there is none.
func (s *Server) SendDowngrade(d Downgrade) (status int) {
	s.T.Helper()
	c := must.Get(net.Dial("tcp", s.Addr))(s.T)
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	usual := []string{":method", "POST", ":scheme", "http", ":path", "/x.php", ":authority",
		"test.example"}
	var block []byte
	add := func(name, value string) {
		block = append(append(append(append(block, 0, byte(len(name))), name...), byte(len(value))),
			value...)
	}
	fields := d.Fields
	for i := 0; i < len(usual); i += 2 {
		value := usual[i+1]
		if len(fields) > 0 && fields[0] == usual[i] {
			value, fields = fields[1], fields[2:]
		}
		if value != "" {
			add(usual[i], value)
		}
	}
	for i := 0; i < len(fields); i += 2 {
		add(fields[i], fields[i+1])
	}
	b := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 0)
	b = append(http2.AppendHeader(b, http2.Headers, http2.EndHeaders, 1, len(block)), block...)
	b = append(http2.AppendHeader(b, http2.Data, http2.EndStream, 1, len(d.Content)), d.Content...)
	must.Get(c.Write(b))(s.T)
	for {
		head := make([]byte, http2.FrameHeaderLen)
		must.Get(io.ReadFull(c, head))(s.T)
		h := http2.ParseHeader(head)
		payload := make([]byte, h.Length)
		must.Get(io.ReadFull(c, payload))(s.T)
		switch h.Type {
		case http2.RSTStream, http2.GoAway:
			return status
		case http2.Headers:
			var dec http2.Decoder
			var f http2.Fields
			f.Reset(1 << 20)
			must.Do(s.T, dec.Decode(payload, &f))
			_, _ = fmt.Sscan(string(f.List[0].Value.Of(f.Buf)), &status)
			return status
		}
	}
}
