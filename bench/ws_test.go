package main

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gobwas/ws"
)

func TestParseFrame(t *testing.T) {
	long := bytes.Repeat([]byte("x"), 126)
	rows := []struct {
		name string
		in   string
		op   ws.OpCode
		want string
	}{
		{"text", "\x81\x02hi", ws.OpText, "hi"},
		{"empty text", "\x81\x00", ws.OpText, ""},
		{"text with two bytes of length", "\x81\x7e\x00\x7e" + string(long), ws.OpText, string(long)},
		{"ping", "\x89\x01p", ws.OpPing, "p"},
		{"close", "\x88\x02\x03\xe8", ws.OpClose, "\x03\xe8"},
	}
	for _, row := range rows {
		for cut := range row.in {
			if f, used, err := parseFrame([]byte(row.in[:cut])); used != 0 || err != nil {
				t.Errorf("%s cut at %d: %+v, %d bytes, %v", row.name, cut, f, used, err)
			}
		}
		f, used, err := parseFrame([]byte(row.in + "\x81"))
		if f.Header.OpCode != row.op || string(f.Payload) != row.want || used != len(row.in) ||
			err != nil {
			t.Errorf("%s: %+v, %d bytes, %v", row.name, f, used, err)
		}
	}
	for in, want := range map[string]string{
		"\xc1\x00":                 "rsv bits", // compressed, which nobody asked for
		"\x91\x00":                 "rsv bits",
		"\x01\x00":                 "fragmented",
		"\x80\x00":                 "unexpected continuation", // the rest of a message that has not begun
		"\x82\x00":                 "opcode 2",                // these servers send text
		"\x83\x00":                 "reserved op code",
		"\x8b\x00":                 "reserved op code",
		"\x81\x80\x00\x00\x00\x00": "must be not masked",
		"\x89\x7e\x00\x7e":         "control frame payload",
		"\x81\x7e\x00\x7d":         "more bytes than it needs",
		"\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00": "more than 65535",
		"\x81\x7f\x80\x00\x00\x00\x00\x01\x00\x00": "most significant bit",
	} {
		if _, _, err := parseFrame([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", in, err, want)
		}
	}
}

// What it sends is read by the masking rule of RFC 6455, section 5.3, byte after byte.
func TestAppendFrame(t *testing.T) {
	for _, size := range []int{0, 1, 7, 8, 9, 125, 126, 1000} {
		payload := letters(size)
		var b bytes.Buffer
		appendFrame(&b, ws.OpText, payload)
		frame := b.Bytes()
		head := 2
		if size > 125 {
			head = 4
			if int(frame[2])<<8|int(frame[3]) != size {
				t.Errorf("%d bytes: length % x", size, frame[2:4])
			}
		}
		mask, body := frame[head:head+4], frame[head+4:]
		for i := range body {
			body[i] ^= mask[i%4]
		}
		if frame[0] != 0x81 || frame[1]&0x80 == 0 || !bytes.Equal(body, payload) {
			t.Errorf("%d bytes: % x", size, frame[:head])
		}
	}
}

func FuzzParseFrame(f *testing.F) {
	f.Add([]byte("\x81\x02hi"))
	f.Add([]byte("\x81\x7e\x00\x7e"))
	f.Add([]byte("\x89\x00"))
	f.Fuzz(func(t *testing.T, p []byte) {
		frame, used, err := parseFrame(p)
		if used > len(p) || used > 0 && (err != nil || used < 2+len(frame.Payload)) {
			t.Errorf("%+v, %d of %d bytes, %v", frame, used, len(p), err)
		}
	})
}

// A server that accepts the upgrade in its own way has not done so.
func TestJoinNoticesWhatIsWrong(t *testing.T) {
	for head, want := range map[string]string{
		"HTTP/1.1 403 Forbidden\r\n\r\n": "403",
		"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: x\r\n\r\n": "Sec-WebSocket-Accept",
		"HTTP/1.1 101 Switching Protocols\r\n": "EOF",
	} {
		ln := listen(t)
		go func() {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			conn.Read(make([]byte, 4096))
			conn.Write([]byte(head))
			conn.Close()
		}()
		_, err := attempt(func(j job) bool {
			c := newWSClient(1 << 10)
			defer c.shut()
			c.join(j.dial(), "/", nil)
			return true
		}, job{Addr: ln.Addr().String()})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.30q: %v, want %q", head, err, want)
		}
	}
}

// Whatever way the bytes are cut, the same messages come of them.
func TestWSClientFeed(t *testing.T) {
	stream := "\x81\x01a\x8a\x01x\x81\x00\x81\x02bc"
	for _, size := range []int{1, 2, 3, 7, len(stream)} {
		var got []string
		c := &wsClient{conns: []*link{{}}}
		c.message = func(i int, p []byte, _ time.Duration) error {
			got = append(got, string(p))
			return nil
		}
		for rest := stream; rest != ""; {
			n := min(size, len(rest))
			if err := c.feed(0, []byte(rest[:n])); err != nil {
				t.Fatal(err)
			}
			rest = rest[n:]
		}
		if fmt.Sprint(got) != "[a  bc]" || c.conns[0].part != nil {
			t.Errorf("%d bytes at a time: %q, %q left", size, got, c.conns[0].part)
		}
	}
}
