package server

import (
	"io"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/wire/http2"
)

// begin sends the head of a request.
func (o *over2) begin(head string) {
	lines := strings.Split(strings.TrimLeft(head, "\r\n"), "\r\n")
	request := strings.Split(lines[0], " ")
	if len(request) != 3 || request[2] != "HTTP/1.1" {
		o.cannot(lines[0])
		return
	}
	o.method, o.key, o.last = request[0], "", false
	o.left = 0
	var fields, host []byte
	chunked, protocol := false, ""
	for _, line := range lines[1:] {
		name, value, ok := strings.Cut(line, ":")
		if value = strings.Trim(value, " \t"); !ok || name == "" ||
			strings.ContainsAny(line, "\r\n\x00") {
			o.cannot(line)
			return
		}
		switch strings.ToLower(name) {
		case "host":
			host = []byte(value)
		case "connection":
			o.last = o.last || strings.Contains(strings.ToLower(value), "close")
		case "keep-alive", "proxy-connection":
		case "transfer-encoding":
			chunked = true
		case "upgrade":
			protocol = value
		case "sec-websocket-key":
			o.key = value
		case "content-length":
			o.left, _ = strconv.ParseInt(value, 10, 64)
			fields = http2.AppendField(fields, name, value)
		default:
			fields = http2.AppendField(fields, name, value)
		}
	}
	pseudo := func(b []byte, name, value string) []byte {
		b = append(b, 0, byte(len(name)))
		b = append(b, name...)
		return appendText(b, value)
	}
	method := o.method
	if o.key != "" && protocol == "websocket" {
		method = "CONNECT"
	} else {
		protocol = ""
	}
	block := pseudo(nil, ":method", method)
	block = pseudo(block, ":scheme", o.scheme)
	block = pseudo(block, ":path", request[1])
	if host != nil {
		block = pseudo(block, ":authority", string(host))
	}
	if protocol != "" {
		block = pseudo(block, ":protocol", protocol)
	} else {
		o.key = ""
	}
	block = append(block, fields...)
	flags := uint8(0)
	switch {
	case protocol != "":
		o.sending = sendsBytes
	case chunked:
		o.sending = sendsChunks
	case o.left > 0:
		o.sending = sendsLength
	default:
		o.sending, flags = sent, http2.EndStream
	}
	o.id += 2
	o.window1, o.answering = o.newWindow, answerHead
	kind, all := http2.Headers, []byte(nil)
	for {
		n := min(len(block), http2.DefaultFrameSize)
		if n == len(block) {
			flags |= http2.EndHeaders
		}
		all = append(http2.AppendHeader(all, kind, flags, o.id, n), block[:n]...)
		if block = block[n:]; len(block) == 0 {
			break
		}
		kind, flags = http2.Continuation, 0
	}
	o.frame(all)
}

func appendText(b []byte, s string) []byte {
	n := len(s)
	if n < 127 {
		b = append(b, byte(n))
	} else {
		b = append(b, 127)
		for n -= 127; n >= 0x80; n >>= 7 {
			b = append(b, byte(n)|0x80)
		}
		b = append(b, byte(n))
	}
	return append(b, s...)
}

// data sends content as the windows allow it, and returns how much. ends: the stream ends when
// o.left bytes have gone.
func (o *over2) data(p []byte, ends bool) (done int) {
	for done < len(p) {
		n := int(min(int64(len(p)-done), http2.DefaultFrameSize, o.window, o.window1))
		if n <= 0 {
			break
		}
		flags := uint8(0)
		if ends && int64(done+n) == o.left {
			flags = http2.EndStream
		}
		b := http2.AppendHeader(nil, http2.Data, flags, o.id, n)
		o.frame(append(b, p[done:done+n]...))
		o.window, o.window1 = o.window-int64(n), o.window1-int64(n)
		done += n
	}
	return done
}

// sendChunks sends content that the test has sent in chunks.
func (o *over2) sendChunks() {
	for len(o.in) > 0 {
		if o.left > 0 { // of a chunk and the end of its last line
			n := min(int64(len(o.in)), o.left)
			if o.left > 2 {
				n = int64(o.data(o.in[:min(n, o.left-2)], false))
			}
			if n == 0 {
				return
			}
			o.in, o.left = o.in[n:], o.left-n
			continue
		}
		line, _, whole := strings.Cut(string(o.in[:min(len(o.in), 4<<10)]), "\r\n")
		if !whole {
			return
		}
		size, _, _ := strings.Cut(line, ";")
		n, err := strconv.ParseInt(strings.TrimSpace(size), 16, 64)
		if err != nil {
			o.cannot(line)
			return
		}
		if n > 0 {
			o.in, o.left = o.in[len(line)+2:], n+2
			continue
		}
		trailer, _, whole := strings.Cut(string(o.in[len(line):]), "\r\n\r\n")
		if !whole {
			return
		}
		o.in = o.in[len(line)+len(trailer)+4:]
		o.sending = sent
		if trailer == "" {
			o.frame(http2.AppendHeader(nil, http2.Data, http2.EndStream, o.id, 0))
			return
		}
		var block []byte
		for l := range strings.SplitSeq(trailer[2:], "\r\n") {
			name, value, _ := strings.Cut(l, ":")
			block = http2.AppendField(block, name, strings.Trim(value, " \t"))
		}
		o.frame(append(http2.AppendHeader(nil, http2.Headers, http2.EndHeaders|http2.EndStream, o.id,
			len(block)), block...))
		return
	}
}

// cannot fails a test that is not one for HTTP/2.
func (o *over2) cannot(what string) {
	o.t.Errorf("HTTP/2 cannot say %q", what)
	o.finish(io.EOF)
}
