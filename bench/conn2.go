package main

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	"golang.org/x/net/http2"
	"golang.org/x/net/http2/hpack"
)

// A conn2 is one side of a connection of HTTP/2, without its socket: feed takes what comes, and out
// gathers what is to be sent. It can do what the clients of HTTP/2 and grpcserve.go need, which
// costs less than x/net's Framer; frames that none of the servers sends are errors.
type conn2 struct {
	out      []byte
	part     []byte // the beginning of a frame
	streams  map[uint32]*stream2
	next     uint32         // number of a stream
	accept   func(*stream2) // a server's: is given each new stream
	settled  bool           // the peer's SETTINGS have come
	fields   *hpack.Encoder // writes to block
	block    bytes.Buffer
	window   int64   // what may be sent on the connection,
	initial  int64   // and on a new stream
	came     int     // content that the peer was not told of that it was read
	withheld []piece // content for which the windows had no room, in order
}

// A stream2 is used for one request after the other.
type stream2 struct {
	id     uint32
	begun  bool // the head has come
	size   int  // of the content that has come
	came   int  // as on the connection
	window int64

	take func(p []byte) error // is given content; nil: it is counted
	end  func() error
}

// A piece is content that ends its stream, or does not, or has fields behind it.
type piece struct {
	s       *stream2
	p       []byte
	ends    bool
	trailer []hpack.HeaderField
}

// The windows that clients offer: those of Chromium. What was read of a half is told.
const (
	ownStreamWindow = 6 << 20
	ownWindow       = 15 << 20
)

const (
	frameHead    = 9        // octets (RFC 9113, section 4.1)
	longestFrame = 16 << 10 // that every peer takes
)

// newConn2 begins a connection with the preface of a client or, where accept is given, of a server.
func newConn2(accept func(*stream2)) *conn2 {
	c := &conn2{streams: map[uint32]*stream2{}, next: 1, accept: accept, window: 65535, initial: 65535}
	c.fields = hpack.NewEncoder(&c.block)
	if accept == nil {
		c.out = append(c.out, http2.ClientPreface...)
	}
	settings := []uint32{uint32(http2.SettingInitialWindowSize), ownStreamWindow}
	if accept == nil {
		settings = append(settings, uint32(http2.SettingEnablePush), 0)
	} else {
		settings = append(settings, uint32(http2.SettingMaxConcurrentStreams), 1000)
	}
	c.out = appendFrameHead(c.out, http2.FrameSettings, 0, 0, 3*len(settings))
	for i := 0; i < len(settings); i += 2 {
		c.out = binary.BigEndian.AppendUint16(c.out, uint16(settings[i]))
		c.out = binary.BigEndian.AppendUint32(c.out, settings[i+1])
	}
	c.grow(0, ownWindow-65535)
	return c
}

func appendFrameHead(
	b []byte, kind http2.FrameType, flags http2.Flags, id uint32, size int,
) []byte {
	b = append(b, byte(size>>16), byte(size>>8), byte(size), byte(kind), byte(flags))
	return binary.BigEndian.AppendUint32(b, id)
}

// grow tells the peer how much more it may send; stream 0 is the connection.
func (c *conn2) grow(id uint32, n int) {
	c.out = appendFrameHead(c.out, http2.FrameWindowUpdate, 0, id, 4)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(n))
}

// request opens a stream with a request, to which content belongs unless it ends with the head.
func (c *conn2) request(s *stream2, ends bool, fields []hpack.HeaderField) {
	*s = stream2{id: c.next, window: c.initial, take: s.take, end: s.end}
	c.streams[s.id], c.next = s, c.next+2
	c.head(s, ends, fields)
}

// head sends fields: of a request, an answer, or behind its content.
func (c *conn2) head(s *stream2, ends bool, fields []hpack.HeaderField) {
	c.block.Reset()
	for _, field := range fields {
		check(c.fields.WriteField(field))
	}
	flags := http2.FlagHeadersEndHeaders
	if ends {
		flags |= http2.FlagHeadersEndStream
	}
	c.out = appendFrameHead(c.out, http2.FrameHeaders, flags, s.id, c.block.Len())
	c.out = append(c.out, c.block.Bytes()...)
}

// data sends content, or keeps it until the windows have room for it.
func (c *conn2) data(s *stream2, ends bool, p []byte) { c.send(piece{s: s, p: p, ends: ends}) }

func (c *conn2) send(w piece) {
	if len(c.withheld) > 0 || !c.pour(&w) {
		w.p = bytes.Clone(w.p)
		c.withheld = append(c.withheld, w)
	}
}

// pour reports whether all of it could be sent; all that could not is left in it. It sends nothing
// unless a frame has room.
func (c *conn2) pour(w *piece) bool {
	for {
		n := min(len(w.p), longestFrame)
		if int64(n) > min(c.window, w.s.window) {
			return false
		}
		var flags http2.Flags
		if w.ends && n == len(w.p) {
			flags = http2.FlagDataEndStream
		}
		c.out = append(appendFrameHead(c.out, http2.FrameData, flags, w.s.id, n), w.p[:n]...)
		c.window, w.s.window, w.p = c.window-int64(n), w.s.window-int64(n), w.p[n:]
		if len(w.p) == 0 {
			if w.trailer != nil {
				c.head(w.s, true, w.trailer)
			}
			return true
		}
	}
}

// feed takes what has come.
func (c *conn2) feed(p []byte) error {
	if len(c.part) > 0 {
		c.part = append(c.part, p...)
		p = c.part
	}
	for len(p) >= frameHead {
		n := frameHead + (int(p[0])<<16 | int(p[1])<<8 | int(p[2]))
		if len(p) < n {
			break
		}
		kind, flags := http2.FrameType(p[3]), http2.Flags(p[4])
		id := binary.BigEndian.Uint32(p[5:]) &^ (1 << 31)
		if err := c.frame(kind, flags, id, p[frameHead:n]); err != nil {
			return fmt.Errorf("%v of stream %d: %w", kind, id, err)
		}
		p = p[n:]
	}
	c.part = append(c.part[:0], p...)
	return nil
}

func (c *conn2) frame(kind http2.FrameType, flags http2.Flags, id uint32, p []byte) error {
	const unusual = http2.FlagDataPadded | http2.FlagHeadersPriority
	switch kind {
	case http2.FrameSettings:
		if flags&http2.FlagSettingsAck == 0 {
			c.settings(p)
			c.out = appendFrameHead(c.out, http2.FrameSettings, http2.FlagSettingsAck, 0, 0)
		}
	case http2.FramePing:
		if flags&http2.FlagPingAck == 0 {
			c.out = appendFrameHead(c.out, http2.FramePing, http2.FlagPingAck, 0, len(p))
			c.out = append(c.out, p...)
		}
	case http2.FrameWindowUpdate:
		if id == 0 {
			c.window += int64(binary.BigEndian.Uint32(p))
		} else if s := c.streams[id]; s != nil {
			s.window += int64(binary.BigEndian.Uint32(p))
		}
		for len(c.withheld) > 0 && c.pour(&c.withheld[0]) {
			c.withheld = c.withheld[1:]
		}
	case http2.FrameHeaders, http2.FrameData:
		s := c.streams[id]
		if s == nil && c.accept != nil && kind == http2.FrameHeaders {
			s = &stream2{id: id, window: c.initial}
			c.streams[id] = s
			c.accept(s)
		}
		if s == nil {
			return errors.New("there is no such stream")
		}
		if c.accept == nil && flags&unusual != 0 {
			return fmt.Errorf("flags %#x", flags)
		}
		return c.content(s, kind, flags&http2.FlagDataEndStream != 0, p)
	case http2.FrameRSTStream:
		return fmt.Errorf("%v", http2.ErrCode(binary.BigEndian.Uint32(p)))
	case http2.FrameGoAway:
		return fmt.Errorf("%v %s", http2.ErrCode(binary.BigEndian.Uint32(p[4:])), p[8:])
	case http2.FramePushPromise:
		return fmt.Errorf("%d bytes", len(p))
	}
	return nil
}

func (c *conn2) settings(p []byte) {
	for ; len(p) >= 6; p = p[6:] {
		value := binary.BigEndian.Uint32(p[2:])
		switch http2.SettingID(binary.BigEndian.Uint16(p)) {
		case http2.SettingInitialWindowSize:
			for _, s := range c.streams {
				s.window += int64(value) - c.initial
			}
			c.initial = int64(value)
		case http2.SettingHeaderTableSize:
			c.fields.SetMaxDynamicTableSizeLimit(value)
		}
	}
	c.settled = true
}

// content takes a head or content.
func (c *conn2) content(s *stream2, kind http2.FrameType, ends bool, p []byte) error {
	if kind == http2.FrameHeaders {
		if !s.begun && c.accept == nil && !good2(p) {
			return fmt.Errorf("an answer whose fields begin with % .16x", p)
		}
		s.begun = true
	} else {
		s.size += len(p)
		if c.came += len(p); c.came >= ownWindow/2 {
			c.grow(0, c.came)
			c.came = 0
		}
		if s.came += len(p); s.came >= ownStreamWindow/2 && !ends {
			c.grow(s.id, s.came)
			s.came = 0
		}
		if s.take != nil {
			if err := s.take(p); err != nil {
				return err
			}
		}
	}
	if !ends {
		return nil
	}
	delete(c.streams, s.id)
	return s.end()
}

// good2 tells whether the fields of an answer begin with the status 200, perhaps behind new sizes
// of the dynamic table (RFC 7541, section 6.3). All servers take it from the static table.
func good2(block []byte) bool {
	const status200 = 0x80 | 8
	for len(block) > 0 && block[0]&0xe0 == 0x20 {
		n := 1
		if block[0]&0x1f == 0x1f {
			for n < len(block) && block[n]&0x80 != 0 {
				n++
			}
			n = min(n+1, len(block))
		}
		block = block[n:]
	}
	return len(block) > 0 && block[0] == status200
}
