package websocket_test

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/race"
)

// maxMessage is the server's limit in the tables.
const maxMessage = 70000

const (
	none    = 0 // of close codes: a close frame without one
	offered = "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits\r\n"
)

// row is what a client sends after the handshake, and what must come of it: answers, and then a
// close frame and the end.
type row struct {
	why  string
	raw  string
	want []received
	code int
}

func text(s string) received { return received{0x81, s} }
func bin(s string) received  { return received{0x82, s} }
func pong(s string) received { return received{0x8a, s} }

// closing is a close frame.
func closing(code int, reason string) string {
	return frame(0x88, string(binary.BigEndian.AppendUint16(nil, uint16(code)))+reason)
}

var bye = closing(1000, "")

// unmasked is a frame as a server sends it.
func unmasked(first byte, payload string) string {
	return string([]byte{first, byte(len(payload))}) + payload
}

// long is a frame with its length in a form of choice, and no more of its payload than there is.
func long(first byte, form byte, length uint64, payload string) string {
	b := []byte{first, 0x80 | form}
	if form == 126 {
		b = binary.BigEndian.AppendUint16(b, uint16(length))
	} else {
		b = binary.BigEndian.AppendUint64(b, length)
	}
	return string(append(b, 0, 0, 0, 0)) + payload
}

// packed is what is sent for s with permessage-deflate.
func packed(s string) string {
	var b bytes.Buffer
	w, _ := flate.NewWriter(&b, 9)
	_, _ = io.WriteString(w, s)
	_ = w.Flush()
	return strings.TrimSuffix(b.String(), "\x00\x00\xff\xff")
}

var rows = []row{
	// Messages (RFC 6455 sections 5.4 and 5.6).
	{"text", frame(0x81, "Hello") + bye, []received{text("Hello")}, 1000},
	{"binary", frame(0x82, "\x00\xff") + bye, []received{bin("\x00\xff")}, 1000},
	{"empty", frame(0x81, "") + frame(0x82, "") + bye, []received{text(""), bin("")}, 1000},
	{"fragments", frame(0x01, "Hel") + frame(0x00, "l") + frame(0x80, "o") + bye,
		[]received{text("Hello")}, 1000},
	{"empty fragments", frame(0x01, "") + frame(0x00, "") + frame(0x80, "") + bye,
		[]received{text("")}, 1000},
	{"control frames between fragments",
		frame(0x01, "Hel") + frame(0x89, "p") + frame(0x00, "l") + frame(0x8a, "x") +
			frame(0x80, "o") + bye, []received{pong("p"), text("Hello")}, 1000},
	{"close between fragments", frame(0x01, "Hel") + closing(1001, "gone"), nil, 1001},
	{"16-bit length", frame(0x82, strings.Repeat("x", 126)) + bye,
		[]received{bin(strings.Repeat("x", 126))}, 1000},
	{"key of zeros", long(0x81, 126, 126, strings.Repeat("y", 126)) + bye,
		[]received{text(strings.Repeat("y", 126))}, 1000},
	{"rune across fragments", frame(0x01, "\xe2\x82") + frame(0x80, "\xac") + bye,
		[]received{text("€")}, 1000},

	// Control frames (section 5.5).
	{"ping", frame(0x89, "abc") + bye, []received{pong("abc")}, 1000},
	{"empty ping", frame(0x89, "") + bye, []received{pong("")}, 1000},
	{"longest ping", frame(0x89, strings.Repeat("p", 125)) + bye,
		[]received{pong(strings.Repeat("p", 125))}, 1000},
	{"pong that nobody asked for", frame(0x8a, "abc") + frame(0x81, "m") + bye,
		[]received{text("m")}, 1000},
	{"pings and messages", frame(0x89, "1") + frame(0x81, "a") + frame(0x89, "2") +
		frame(0x89, "3") + frame(0x81, "b") + bye,
		[]received{pong("1"), text("a"), pong("2"), pong("3"), text("b")}, 1000},

	// The end (sections 5.5.1 and 7.4).
	{"close without a code", frame(0x88, ""), nil, none},
	{"close with a reason", closing(1000, "grüße"), nil, 1000},
	{"nothing counts after a close", bye + frame(0x81, "late"), nil, 1000},
	{"code 1003", closing(1003, ""), nil, 1003},
	{"code 1014", closing(1014, ""), nil, 1014},
	{"code 3000", closing(3000, ""), nil, 3000},
	{"code 4999", closing(4999, strings.Repeat("r", 123)), nil, 4999},
	{"half a code", frame(0x88, "\x03"), nil, 1002},
	{"code 0", closing(0, ""), nil, 1002},
	{"code 999", closing(999, ""), nil, 1002},
	{"code 1004", closing(1004, ""), nil, 1002},
	{"code 1005", closing(1005, ""), nil, 1002},
	{"code 1006", closing(1006, ""), nil, 1002},
	{"code 1015", closing(1015, ""), nil, 1002},
	{"code 1016", closing(1016, ""), nil, 1002},
	{"code 2999", closing(2999, ""), nil, 1002},
	{"code 5000", closing(5000, ""), nil, 1002},
	{"code 65535", closing(65535, ""), nil, 1002},
	{"reason that is not UTF-8", closing(1000, "\xff"), nil, 1007},

	// Frames that must not be (section 5.2).
	{"RSV1", frame(0xc1, "a"), nil, 1002},
	{"RSV2", frame(0xa1, "a"), nil, 1002},
	{"RSV3", frame(0x91, "a"), nil, 1002},
	{"RSV1 of a ping", frame(0xc9, "a"), nil, 1002},
	{"opcode 3", frame(0x83, "a"), nil, 1002},
	{"opcode 7", frame(0x87, ""), nil, 1002},
	{"opcode 11", frame(0x8b, ""), nil, 1002},
	{"opcode 15", frame(0x8f, "a"), nil, 1002},
	{"after a message", frame(0x81, "a") + frame(0x83, "b"), []received{text("a")}, 1002},
	{"text not masked", unmasked(0x81, "a"), nil, 1002},
	{"ping not masked", unmasked(0x89, "a"), nil, 1002},
	{"close not masked", unmasked(0x88, "\x03\xe8"), nil, 1002},
	{"fragment not masked", frame(0x01, "a") + unmasked(0x80, "b"), nil, 1002},
	{"ping in fragments", frame(0x09, "a"), nil, 1002},
	{"close in fragments", frame(0x08, "\x03\xe8"), nil, 1002},
	{"ping too long", frame(0x89, strings.Repeat("p", 126)), nil, 1002},
	{"ping longer still", long(0x89, 127, 1<<40, ""), nil, 1002},
	{"continuation of nothing", frame(0x80, "a"), nil, 1002},
	{"unfinished continuation of nothing", frame(0x00, "a"), nil, 1002},
	{"continuation after the end", frame(0x01, "a") + frame(0x80, "b") + frame(0x80, "c"),
		[]received{text("ab")}, 1002},
	{"message within a message", frame(0x01, "a") + frame(0x81, "b"), nil, 1002},
	{"binary within a text", frame(0x01, "a") + frame(0x02, "b"), nil, 1002},
	{"16-bit length of 125", long(0x81, 126, 125, ""), nil, 1002},
	{"64-bit length of 65535", long(0x81, 127, 65535, ""), nil, 1002},
	{"64-bit length with the highest bit", long(0x82, 127, 1<<63, ""), nil, 1002},

	// Limits.
	{"too long", frame(0x82, strings.Repeat("x", maxMessage+1)), nil, 1009},
	{"announced too long", long(0x82, 127, maxMessage+1, ""), nil, 1009},
	{"as long as can be", long(0x82, 127, 1<<63-1, ""), nil, 1009},
	{"too long in fragments",
		frame(0x02, strings.Repeat("x", 10)) + long(0x80, 127, maxMessage-9, ""), nil, 1009},
	{"empty fragments",
		frame(0x01, "") + strings.Repeat(frame(0x00, ""), 63) + frame(0x80, "a") + bye,
		[]received{text("a")}, 1000},
	{"too many empty fragments", frame(0x01, "a") + strings.Repeat(frame(0x00, ""), 65), nil, 1008},
	{"empty fragments of many messages", strings.Repeat(frame(0x01, "")+frame(0x80, "a"), 70) +
		frame(0x01, "") + strings.Repeat(frame(0x00, ""), 64), slices.Repeat([]received{text("a")}, 70),
		1008},
	{"sum overflows", frame(0x02, "x") + long(0x80, 127, 1<<63-1, ""), nil, 1009},

	// Text (section 8.1).
	{"not UTF-8", frame(0x81, "a\xffb"), nil, 1007},
	{"not UTF-8 across fragments", frame(0x01, "\xe2\x82") + frame(0x80, "\x20"), nil, 1007},
	{"rune cut off, before an empty fragment", frame(0x01, "\xe2\x82") + frame(0x80, ""), nil,
		1007},
	{"rune cut off", frame(0x81, "\xe2\x82"), nil, 1007},
	{"surrogate", frame(0x81, "\xed\xa0\x80"), nil, 1007},
	{"overlong", frame(0x81, "\xc0\xaf"), nil, 1007},
	{"beyond Unicode", frame(0x81, "\xf4\x90\x80\x80"), nil, 1007},
	{"binary need not be", frame(0x82, "\xe2\x82") + bye, []received{bin("\xe2\x82")}, 1000},
}

// compressed are rows after permessage-deflate was agreed upon (RFC 7692, whose section 7.2.3 has
// the first ones).
var compressed = []row{
	{"one block", frame(0xc1, "\xf2\x48\xcd\xc9\xc9\x07\x00") + bye, []received{text("Hello")},
		1000},
	{"in fragments", frame(0x41, "\xf2\x48\xcd") + frame(0x80, "\xc9\xc9\x07\x00") + bye,
		[]received{text("Hello")}, 1000},
	{"stored", frame(0xc1, "\x00\x05\x00\xfa\xffHello\x00") + bye, []received{text("Hello")}, 1000},
	{"last block", frame(0xc1, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00") + frame(0x81, "next") + bye,
		[]received{text("Hello"), text("next")}, 1000},
	{"last block in fragments",
		frame(0x41, "\xf3\x48\xcd\xc9\xc9\x07\x00") + frame(0x00, "\x00") + frame(0x80, "") +
			frame(0x81, "next") + bye, []received{text("Hello"), text("next")}, 1000},
	{"two blocks", frame(0xc1, "\xf2\x48\x05\x00\x00\x00\xff\xff\xca\xc9\xc9\x07\x00") + bye,
		[]received{text("Hello")}, 1000},
	{"empty", frame(0xc1, "\x00") + bye, []received{text("")}, 1000},
	{"not compressed", frame(0x81, "plain") + frame(0x82, "x") + bye,
		[]received{text("plain"), bin("x")}, 1000},
	{"control frames between",
		frame(0x41, "\xf2\x48\xcd") + frame(0x89, "p") + frame(0x80, "\xc9\xc9\x07\x00") + bye,
		[]received{pong("p"), text("Hello")}, 1000},
	{"rune across fragments", frame(0x41, packed("€")[:2]) + frame(0x80, packed("€")[2:]) + bye,
		[]received{text("€")}, 1000},
	{"RSV1 of a continuation", frame(0x41, "\xf2\x48\xcd") + frame(0xc0, "\xc9\xc9\x07\x00"), nil,
		1002},
	{"RSV1 of a ping", frame(0xc9, ""), nil, 1002},
	{"RSV1 of a close", frame(0xc8, "\x03\xe8"), nil, 1002},
	{"RSV2", frame(0xe1, "a"), nil, 1002},
	{"no such block", frame(0xc1, "\xff\xff\xff"), nil, 1007},
	{"cut off", frame(0xc1, "\xf2\x48\xcd"), nil, 1007},
	{"more behind the last block", frame(0xc1, "\xf3\x48\xcd\xc9\xc9\x07\x00\x00\x00"), nil, 1007},
	{"what was sent before is not to be referred to",
		frame(0xc1, "\xf2\x48\xcd\xc9\xc9\x07\x00") + frame(0xc1, "\xf2\x00\x11\x00\x00"),
		[]received{text("Hello")}, 1007},
	{"not UTF-8 when inflated", frame(0xc1, packed("\xff")), nil, 1007},
	{"too long when inflated", frame(0xc2, packed(strings.Repeat("x", maxMessage+1))), nil, 1009},
	{"bomb", frame(0xc2, packed(strings.Repeat("\x00", 50<<20))), nil, 1009},
	{"as long as may be", frame(0xc2, packed(strings.Repeat("x", maxMessage))) + bye,
		[]received{bin(strings.Repeat("x", maxMessage))}, 1000},
}

// TestProtocol: rows whole, and cut in two: at every byte in one mode, at some in the others.
func TestProtocol(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{Compression: true, ReadLimit: maxMessage}))
		for _, table := range []struct {
			fields string
			rows   []row
		}{{"", rows}, {offered, compressed}} {
			for _, r := range table.rows {
				check(s, r, table.fields, r.raw)
				step := 1 + len(r.raw)/300
				if m != direct {
					step += 6
				}
				if race.Enabled || !ci.Enabled() && m != direct { // races do not depend on where exactly
					step *= 4
				}
				for i := 1; i < len(r.raw); i += step {
					check(s, r, table.fields, r.raw[:i], r.raw[i:])
				}
			}
		}
	})
}

// TestByteByByte: rows in pieces of one byte.
func TestByteByByte(t *testing.T) {
	t.Parallel()
	both(t, func(t *testing.T, m mode) {
		s := start(t, m, echo(&websocket.Upgrader{Compression: true, ReadLimit: maxMessage}))
		for _, r := range rows {
			if len(r.raw) < 300 {
				check(s, r, "", bytewise(r.raw)...)
			}
		}
		for _, r := range compressed {
			if len(r.raw) < 300 {
				check(s, r, offered, bytewise(r.raw)...)
			}
		}
	})
}

func bytewise(s string) (pieces []string) {
	for i := range len(s) {
		pieces = append(pieces, s[i:i+1])
	}
	return pieces
}

// check sends the pieces one after the other, each when the server has had a look at the one
// before.
func check(s *site, r row, fields string, pieces ...string) {
	s.T.Helper()
	c := upgrade(s, fields)
	defer c.Close()
	name := fmt.Sprintf("%s, in %d pieces, the first of %d bytes", r.why, len(pieces),
		len(pieces[0]))
	for i, p := range pieces {
		if i > 0 {
			s.Settle()
		}
		if _, err := io.WriteString(c, p); err != nil {
			break // the server has had enough; what it says is read below
		}
	}
	var got []received
	for {
		f, err := c.next()
		if err != nil {
			s.T.Errorf("%s: %d frames, then %v", name, len(got), err)
			return
		}
		if f.first == 0x88 {
			code := none
			if len(f.payload) >= 2 {
				code = int(binary.BigEndian.Uint16([]byte(f.payload)))
			}
			if code != r.code {
				s.T.Errorf("%s: closed with %d, %q; want %d", name, code, f.payload, r.code)
			}
			break
		}
		got = append(got, f)
	}
	if !slices.Equal(got, r.want) {
		s.T.Errorf("%s: got %.200q, want %.200q", name, got, r.want)
	}
	// What comes behind the client's close, and perhaps behind ours, may have been answered with a
	// reset.
	late := strings.Contains(r.raw, bye) && !strings.HasSuffix(r.raw, bye)
	if f, err := c.read(); err != io.EOF && !(late && errors.Is(err, syscall.ECONNRESET)) {
		s.T.Errorf("%s: after the close: %q, %v", name, f.payload, err)
	}
}

// next reads a message, or a control frame.
func (c *client) next() (f received, err error) {
	f, err = c.read()
	for fin := f.first&0x80 != 0; err == nil && !fin; {
		var more received
		more, err = c.read()
		f.payload += more.payload
		fin = more.first&0x80 != 0
	}
	f.first |= 0x80
	if err == nil && f.first&0x40 != 0 {
		var p []byte
		p, err = io.ReadAll(flate.NewReader(strings.NewReader(f.payload +
			"\x00\x00\xff\xff\x01\x00\x00\xff\xff")))
		f.first, f.payload = f.first&^0x40, string(p)
	}
	return f, err
}
