package http2_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http2"
)

// TestAppendRequest: a head of HTTP/1.1 becomes the fields that HTTP/2 has for it.
func TestAppendRequest(t *testing.T) {
	for _, tt := range []struct {
		head   string
		secure bool
		want   string
	}{
		{"GET / HTTP/1.1\r\nHost: a.example:81\r\n\r\n", false,
			":method:GET\n:scheme:http\n:path:/\n:authority:a.example:81\n"},
		{"POST /a?b HTTP/1.1\r\nHost: a\r\nX-A:  b c \r\nContent-Length: 4\r\n\r\n", true,
			":method:POST\n:scheme:https\n:path:/a?b\n:authority:a\nx-a:b c\ncontent-length:4\n"},
		{"OPTIONS * HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nTransfer-Encoding: " +
			"chunked\r\n" +
			"Upgrade: x\r\nKeep-Alive: 5\r\nProxy-Connection: x\r\nCookie: a=b\r\n\r\n", false,
			":method:OPTIONS\n:scheme:http\n:path:*\n:authority:a\nte:trailers\ncookie:a=b\n"},
	} {
		b := http2.AppendRequest([]byte{http2.NoTable}, []byte(tt.head), tt.secure)
		var f http2.Fields
		f.Reset(1 << 20)
		if err := new(http2.Decoder).Decode(b, &f); err != nil || string(f.Buf) != tt.want {
			t.Errorf("%q: %q %v, want %q", tt.head, f.Buf, err, tt.want)
		}
	}
}

// TestAppendBlock: a block goes into as many frames as it takes.
func TestAppendBlock(t *testing.T) {
	block := strings.Repeat("x", 25)
	for most, frames := range map[int]int{25: 1, 24: 2, 10: 3} {
		b, got := http2.AppendBlock(nil, 3, http2.EndStream, []byte(block), most), ""
		for n := 0; len(b) > 0; n++ {
			h := http2.ParseHeader(b)
			want := http2.Header{Length: h.Length, Type: http2.Continuation, Stream: 3}
			if n == 0 {
				want.Type, want.Flags = http2.Headers, http2.EndStream
			}
			if n == frames-1 {
				want.Flags |= http2.EndHeaders
			}
			if h != want || int(h.Length) > most {
				t.Errorf("frame %d of %d: %+v", n, frames, h)
			}
			got += string(b[http2.FrameHeaderLen:][:h.Length])
			b = b[http2.FrameHeaderLen+int(h.Length):]
		}
		if got != block {
			t.Errorf("%q", got)
		}
	}
}
