package server

import (
	"crypto/sha1"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/wire/http2"
)

// receive acts on the server's frames until the connection ends.
func (o *over2) receive() {
	r := o.Conn
	var head [http2.FrameHeaderLen]byte
	for {
		_, err := io.ReadFull(r, head[:])
		var payload []byte
		h := http2.ParseHeader(head[:])
		if err == nil {
			payload = make([]byte, h.Length)
			_, err = io.ReadFull(r, payload)
		}
		o.mu.Lock()
		if err != nil {
			if err == io.ErrUnexpectedEOF {
				err = io.EOF
			}
			if o.end == nil {
				o.end = err
			}
			o.changed.Broadcast()
			o.mu.Unlock()
			return
		}
		o.act(h, payload)
		o.changed.Broadcast()
		o.mu.Unlock()
	}
}

func (o *over2) act(h http2.Header, payload []byte) {
	mine := h.Stream == o.id && o.answering != nothing
	switch h.Type {
	case http2.SettingsFrame:
		if h.Flags&http2.Ack != 0 {
			return
		}
		for ; len(payload) >= 6; payload = payload[6:] {
			if http2.Setting(payload[0])<<8|http2.Setting(payload[1]) == http2.InitialWindowSize {
				value := int64(http2.Uint32(payload[2:]))
				o.window1 += value - o.newWindow
				o.newWindow = value
			}
		}
		o.frame(http2.AppendHeader(nil, http2.SettingsFrame, http2.Ack, 0, 0))
		o.send()
	case http2.WindowUpdate:
		n := int64(http2.Uint32(payload))
		if h.Stream == 0 {
			o.window += n
		} else if h.Stream == o.id {
			o.window1 += n
		}
		o.send()
	case http2.Ping:
		if h.Flags&http2.Ack == 0 {
			o.frame(append(http2.AppendHeader(nil, http2.Ping, http2.Ack, 0, 8), payload...))
		}
	case http2.GoAway:
		o.last = true
		if o.answering == nothing {
			o.finish(io.EOF)
		}
	case http2.RSTStream:
		if h.Stream != o.id {
			return
		}
		if o.answering == nothing { // the rest of the request is not wanted
			if o.sending != sent && o.sending != sendsHead {
				o.sending = sendsRest
				o.finish(io.EOF)
			}
			return
		}
		o.finish(io.EOF)
	case http2.Data:
		if !mine {
			o.content += len(payload)
			return
		}
		o.content += int(h.Length)
		if o.answering == answerChunks && len(payload) > 0 {
			o.out = fmt.Appendf(o.out, "%x\r\n%s\r\n", len(payload), payload)
		} else {
			o.out = append(o.out, payload...)
		}
		if h.Flags&http2.EndStream != 0 {
			o.answered(nil)
		}
	case http2.Headers, http2.Continuation:
		if h.Type == http2.Headers {
			o.blockEnds = h.Flags&http2.EndStream != 0
			o.block = o.block[:0]
		}
		if o.block = append(o.block, payload...); h.Flags&http2.EndHeaders != 0 {
			o.fields(mine)
		}
	}
}

// fields acts on a field block.
func (o *over2) fields(mine bool) {
	var f http2.Fields
	f.Reset(1 << 20)
	if err := o.dec.Decode(o.block, &f); err != nil {
		o.t.Error(err)
		return
	}
	if !mine {
		return
	}
	var lines []string
	status, length := 0, false
	for _, field := range f.List {
		name, value := string(field.Name.Of(f.Buf)), string(field.Value.Of(f.Buf))
		switch name {
		case ":status":
			status, _ = strconv.Atoi(value)
			continue
		case "content-length":
			length = true
		case "connection", "transfer-encoding", "keep-alive", "upgrade":
			o.t.Errorf("HTTP/2 must not say %s: %s", name, value)
		}
		lines = append(lines, http.CanonicalHeaderKey(name)+": "+value+"\r\n")
	}
	if status == 0 {
		o.answered(lines)
		return
	}
	if o.key != "" && status == 200 {
		sum := sha1.Sum([]byte(o.key + "258EAFA5-E914-47DA-95CA-C5AB0DC85B11"))
		lines = append(lines, "Upgrade: websocket\r\n", "Connection: Upgrade\r\n",
			"Sec-Websocket-Accept: "+base64.StdEncoding.EncodeToString(sum[:])+"\r\n")
		status, length = 101, true
	}
	interim := status < 200 && status != 101
	none := interim || status == 204 || status == 304 || o.method == "HEAD" || length
	switch {
	case interim:
	case none:
		o.answering = answerLength
	default:
		o.answering = answerChunks
		if o.blockEnds {
			lines = append(lines, "Content-Length: 0\r\n")
			o.answering = answerLength
		} else {
			lines = append(lines, "Transfer-Encoding: chunked\r\n")
		}
	}
	if o.last && !interim {
		lines = append(lines, "Connection: close\r\n")
	}
	o.out = fmt.Appendf(o.out, "HTTP/1.1 %d %s\r\n%s\r\n", status, http.StatusText(status),
		strings.Join(lines, ""))
	if o.blockEnds {
		o.answered(nil)
	}
}

// answered ends the answer.
func (o *over2) answered(trailer []string) {
	if o.answering == answerChunks {
		o.out = append(o.out, "0\r\n"+strings.Join(trailer, "")+"\r\n"...)
	}
	o.answering = nothing
	if o.last || o.key != "" {
		o.finish(io.EOF)
		return
	}
	if o.sending == sent {
		o.sending = sendsHead
		o.send()
	}
}
