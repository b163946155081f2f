package http1_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http/httputil"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

var goodBodies = []struct{ raw, data string }{
	{"0\r\n\r\n", ""},
	{"000\r\n\r\n", ""},
	{"5\r\nhello\r\n0\r\n\r\n", "hello"},
	{"5\r\nhello\r\n07\r\n, world\r\n0\r\n\r\n", "hello, world"},
	{"a\r\n0123456789\r\nA\r\n0123456789\r\n0\r\n\r\n", "01234567890123456789"},
	// data that looks like framing
	{"10\r\n0\r\n\r\n0\r\n\r\n0\r\n\r\n0\r\n0\r\n\r\n", "0\r\n\r\n0\r\n\r\n0\r\n\r\n0"},
	// Extensions (RFC 9112 section 7.1.1): values may be tokens or quoted, white space is bad but
	// to be read.
	{"1;a\r\nx\r\n0;b=c\r\n\r\n", "x"},
	{"1;a=b;c=\"d\";e\r\nx\r\n0\r\n\r\n", "x"},
	{"1 ; a\t=  b ;c\r\nx\r\n0\r\n\r\n", "x"},
	{"1;a=\"\\\"\\\\;\t\x80\" ;b\r\nx\r\n0\r\n\r\n", "x"},
	{"1;a=\"\"\r\nx\r\n0\r\n\r\n", "x"},
	// Trailer fields, which are dropped.
	{"0\r\nX: y\r\n\r\n", ""},
	{"1\r\nx\r\n0\r\nX:\r\nY: a\tb \x80\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		"x"},
	{"0\r\nX: " + strings.Repeat("y", 8<<10-len("X: \r\n\r\n")) + "\r\n\r\n", ""},
	// One extension of nearly the whole budget; and short ones in number, paid for by their data.
	{"1;" + strings.Repeat("a", 16<<10-10) + "\r\nx\r\n0\r\n\r\n", "x"},
	{strings.Repeat("4;abcdefgh\r\ndata\r\n", 2000) + "0\r\n\r\n", strings.Repeat("data", 2000)},
	{strings.Repeat("1\r\nx\r\n", 20000) + "0\r\n\r\n", strings.Repeat("x", 20000)},
}

var badBodies = []struct {
	raw, data string // data good until the fault
	want      *http1.Error
}{
	// Sizes.
	{"\r\n", "", http1.ErrChunkSize},
	{";a\r\n", "", http1.ErrChunkSize},
	{" 5\r\nhello\r\n", "", http1.ErrChunkSize},
	{"5 \r\nhello\r\n", "", http1.ErrChunkSize},
	{"+5\r\nhello\r\n", "", http1.ErrChunkSize},
	{"-5\r\nhello\r\n", "", http1.ErrChunkSize},
	{"0x5\r\nhello\r\n", "", http1.ErrChunkSize},
	{"5h\r\nhello\r\n", "", http1.ErrChunkSize},
	{"5_0\r\n", "", http1.ErrChunkSize},
	{"5 5\r\n", "", http1.ErrChunkSize},
	{"5,5\r\n", "", http1.ErrChunkSize},
	{"\x00\r\n", "", http1.ErrChunkSize},
	{"8000000000000000\r\n", "", http1.ErrChunkSize}, // 2^63
	{"10000000000000005\r\nhello\r\n", "", http1.ErrChunkSize},
	{"fffffffffffffffff\r\n", "", http1.ErrChunkSize},
	{strings.Repeat("0", 16<<10+1), "", http1.ErrChunkExcess},
	// Line ends. Section 7.1 knows CRLF alone; "TERM.EXT" smuggling lives on parsers that end a
	// chunk line elsewhere.
	{"5\nhello\r\n0\r\n\r\n", "", http1.ErrBareLF},
	{"5;a\nhello\r\n0\r\n\r\n", "", http1.ErrBareLF},
	{"5\rhello\r\n", "", http1.ErrBareCR},
	{"5\r\r\nhello\r\n", "", http1.ErrBareCR},
	{"5;a\rb\r\nhello\r\n", "", http1.ErrBareCR},
	{"5\r\nhello\n0\r\n\r\n", "hello", http1.ErrChunkData},
	{"5\r\nhello\r0\r\n\r\n", "hello", http1.ErrChunkData},
	{"5\r\nhello!\r\n", "hello", http1.ErrChunkData},
	{"5\r\nhello0\r\n\r\n", "hello", http1.ErrChunkData},
	{"4\r\nhello\r\n0\r\n\r\n", "hell", http1.ErrChunkData},
	{"0\r\n\n", "", http1.ErrBareLF},
	{"0\r\n\rX", "", http1.ErrBareCR},
	{"0\n\r\n", "", http1.ErrBareLF},
	// Extensions.
	{"1;\r\nx\r\n", "", http1.ErrChunkExt},
	{"1; \r\nx\r\n", "", http1.ErrChunkExt},
	{"1;;a\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;=a\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a=\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a \r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a b\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a=b c\r\nx\r\n", "", http1.ErrChunkSize},
	{"1;a=b=c\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a\x00\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a=\"b\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a=\"b\nc\"\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a=\"b\\\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;a=\"b\"c\r\nx\r\n", "", http1.ErrChunkExt},
	{"1;" + strings.Repeat("a", 16<<10), "", http1.ErrChunkExcess},
	{strings.Repeat("1;"+strings.Repeat("a", 118)+"\r\nx\r\n", 200), strings.Repeat("x", 154),
		http1.ErrChunkExcess},
	// Trailer section: the rules of a head.
	{"0\r\n X: y\r\n\r\n", "", http1.ErrFold},
	{"0\r\nX: y\r\n z\r\n\r\n", "", http1.ErrFold},
	{"0\r\nX : y\r\n\r\n", "", http1.ErrFieldName},
	{"0\r\n: y\r\n\r\n", "", http1.ErrFieldName},
	{"0\r\nX\r\n\r\n", "", http1.ErrFieldName},
	{"0\r\nX: \x00\r\n\r\n", "", http1.ErrFieldValue},
	{"0\r\nX: y\n\r\n", "", http1.ErrBareLF},
	{"0\r\nX: y\rZ\r\n\r\n", "", http1.ErrBareCR},
	{"0\r\nGET / HTTP/1.1\r\n\r\n", "", http1.ErrFieldName}, // the next request is no trailer
	{"0\r\nX: " + strings.Repeat("y", 8<<10), "", http1.ErrTrailerSize},
}

// decode runs raw through Decode in pieces: src cut at every multiple of in, dst of out bytes.
func decode(c *http1.Chunked, raw []byte,
	in, out int) (data []byte, used int, done bool, err error) {
	dst := make([]byte, out)
	for end := min(in, len(raw)); ; {
		var nd, ns int
		nd, ns, done, err = c.Decode(dst, raw[used:end])
		data = append(data, dst[:nd]...)
		used += ns
		if done || err != nil {
			return data, used, done, err
		}
		if used == end {
			if end == len(raw) {
				return data, used, false, nil
			}
			end = min(end+in, len(raw))
		} else if nd < out {
			return data, used, false, io.ErrNoProgress
		}
	}
}

// decodeInPlace is the same by Next.
func decodeInPlace(c *http1.Chunked, raw []byte,
	in int) (data []byte, used int, done bool, err error) {
	for end := min(in, len(raw)); ; {
		var piece []byte
		var ns int
		piece, ns, done, err = c.Next(raw[used:end])
		data = append(data, piece...)
		used += ns
		if done || err != nil {
			return data, used, done, err
		}
		if len(piece) == 0 {
			if used != end {
				return data, used, false, io.ErrNoProgress
			}
			if end == len(raw) {
				return data, used, false, nil
			}
			end = min(end+in, len(raw))
		}
	}
}

func sizes(n int) []int {
	if n > 300 {
		return []int{1, 4096, n}
	}
	all := make([]int, n)
	for i := range all {
		all[i] = i + 1
	}
	return all
}

func TestGoodBodies(t *testing.T) {
	const next = "0\r\n\r\nGET / HTTP/1.1\r\n"
	for _, tt := range goodBodies {
		raw := []byte(tt.raw + next)
		for _, in := range sizes(len(raw)) {
			for _, out := range []int{1, 3, len(raw)} {
				var c http1.Chunked
				data, used, done, err := decode(&c, raw, in, out)
				if string(data) != tt.data || used != len(tt.raw) || !done || err != nil {
					t.Fatalf("%.100q by %d into %d: %.100q, used %d, done %v, %v", tt.raw, in, out, data, used,
						done, err)
				}
				if nd, ns, done, err := c.Decode(make([]byte, 9), raw[used:]); nd != 0 || ns != 0 || !done ||
					err != nil {
					t.Fatalf("%.100q: after the end: %d, %d, %v, %v", tt.raw, nd, ns, done, err)
				}
			}
			var c http1.Chunked
			data, used, done, err := decodeInPlace(&c, raw, in)
			if string(data) != tt.data || used != len(tt.raw) || !done || err != nil {
				t.Fatalf("%.100q in place by %d: %.100q, used %d, done %v, %v", tt.raw, in, data, used, done,
					err)
			}
		}
	}
}

func TestBadBodies(t *testing.T) {
	var c http1.Chunked
	for _, tt := range badBodies {
		raw := []byte(tt.raw)
		for _, in := range sizes(len(raw)) {
			c.Reset()
			data, _, done, err := decode(&c, raw, in, len(raw))
			if string(data) != tt.data || done || err != tt.want {
				t.Fatalf("%.100q by %d: %.100q, done %v, %v, want %v", tt.raw, in, data, done, err, tt.want)
			}
			if nd, ns, done, err := c.Decode(make([]byte, 9), []byte("0\r\n\r\n")); nd != 0 || ns != 0 ||
				done || err != tt.want {
				t.Fatalf("%.100q: after the error: %d, %d, %v, %v", tt.raw, nd, ns, done, err)
			}
			c.Reset()
			data, _, done, err = decodeInPlace(&c, raw, in)
			if string(data) != tt.data || done || err != tt.want {
				t.Fatalf("%.100q in place by %d: %.100q, done %v, %v, want %v", tt.raw, in, data, done, err,
					tt.want)
			}
		}
	}
}

// A body that ends early is not done, wherever it is cut.
func TestCutBodies(t *testing.T) {
	for _, tt := range goodBodies {
		if len(tt.raw) > 300 {
			continue
		}
		for i := range len(tt.raw) {
			var c http1.Chunked
			if _, used, done, err := decode(&c, []byte(tt.raw[:i]), i+1, 100); used != i || done ||
				err != nil {
				t.Fatalf("%q: used %d, done %v, %v", tt.raw[:i], used, done, err)
			}
		}
	}
}

func TestChunkedOverItself(t *testing.T) {
	for _, tt := range goodBodies {
		var c http1.Chunked
		b := []byte(tt.raw)
		if nd, _, done, err := c.Decode(b, b); string(b[:nd]) != tt.data || !done || err != nil {
			t.Fatalf("%.100q: %.100q, done %v, %v", tt.raw, b[:nd], done, err)
		}
	}
}

// TestChunkedTrailer: the fields come as they were sent, however the bytes came; and only if they
// were asked for.
func TestChunkedTrailer(t *testing.T) {
	const raw = "1\r\nx\r\n0\r\nX: a:b \r\nX:\r\ny:\tc d\r\n\r\n"
	for _, step := range []int{1, 7, len(raw)} {
		for _, keep := range []bool{true, false} {
			var c http1.Chunked
			if keep {
				c.KeepTrailer()
			}
			for rest := []byte(raw); len(rest) > 0; {
				n := min(step, len(rest))
				if _, ns, _, err := c.Decode(make([]byte, 10), rest[:n]); err != nil || ns != n {
					t.Fatalf("%d of %d bytes: %v", ns, n, err)
				}
				rest = rest[n:]
			}
			var got strings.Builder
			c.Trailer(func(name, value []byte) { fmt.Fprintf(&got, "%s=%s;", name, value) })
			want := "X=a:b;X=;y=c d;"
			if !keep {
				want = ""
			}
			if got.String() != want {
				t.Errorf("by %d, kept %v: %q", step, keep, got.String())
			}
			c.Reset()
			c.Trailer(func(name, value []byte) { t.Errorf("after Reset: %s", name) })
		}
	}
}

// The largest size that a chunk can have is one that the decoder takes data of.
func TestChunkedLargest(t *testing.T) {
	var c http1.Chunked
	raw := []byte("7fffffffffffffff\r\nab")
	if nd, ns, _, err := c.Decode(make([]byte, 1), raw); nd != 1 || ns != len(raw)-1 || err != nil {
		t.Fatal(nd, ns, err)
	}
}

func TestAppendChunkHeader(t *testing.T) {
	var b []byte
	for _, data := range []string{"hello", strings.Repeat("x", 4096), "!"} {
		b = append(http1.AppendChunkHeader(b, len(data)), data+http1.ChunkEnd...)
	}
	if !bytes.HasPrefix(b, []byte("5\r\nhello\r\n1000\r\nxxx")) {
		t.Errorf("got %.20q", b)
	}
	got, err := io.ReadAll(httputil.NewChunkedReader(strings.NewReader(string(b) + http1.LastChunk)))
	if want := "hello" + strings.Repeat("x", 4096) + "!"; string(got) != want || err != nil {
		t.Errorf("net/http reads %.20q, %v", got, err)
	}
	defer func() {
		if recover() == nil {
			t.Error("a chunk of no data did not panic")
		}
	}()
	http1.AppendChunkHeader(nil, 0)
}

// TestChunkedLeft: wherever a body is cut, no more is asked for than it has; within a large chunk
// that is nearly all.
func TestChunkedLeft(t *testing.T) {
	large := "8000\r\n" + strings.Repeat("x", 0x8000) + "\r\n0\r\n\r\n"
	bodies := []string{large}
	for _, tt := range goodBodies {
		bodies = append(bodies, tt.raw)
	}
	for _, raw := range bodies {
		var c http1.Chunked
		dst := make([]byte, 1)
		for at := range len(raw) + 1 {
			left, rest := int(c.Left()), len(raw)-at
			if left > rest || left == 0 && rest > 0 ||
				raw == large && rest > 0x100 && at > 5 && rest-left > 7 {
				t.Fatalf("%.40q at %d: %d left, %d asked for", raw, at, rest, left)
			}
			if rest == 0 {
				break
			}
			if _, n, _, err := c.Decode(dst, []byte(raw[at:at+1])); err != nil || n != 1 {
				t.Fatalf("%.40q at %d: %d bytes, %v", raw, at, n, err)
			}
		}
	}
	var c http1.Chunked
	_, _, _, _ = c.Decode(nil, []byte("7fffffffffffffff\r\n"))
	if left := c.Left(); left != 1<<62 {
		t.Errorf("%d", left)
	}
}

func TestChunkedAllocations(t *testing.T) {
	var c http1.Chunked
	dst, raw := make([]byte, 64), []byte("5;a=b\r\nhello\r\n0\r\nX: y\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() {
		c.Reset()
		c.Decode(dst, raw)
		http1.AppendChunkHeader(dst[:0], 4096)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzChunked(f *testing.F) {
	for _, tt := range goodBodies {
		f.Add([]byte(tt.raw), uint8(3), uint8(2))
	}
	for _, tt := range badBodies {
		f.Add([]byte(tt.raw), uint8(3), uint8(2))
	}
	f.Fuzz(func(t *testing.T, raw []byte, in, out uint8) {
		var c1, c2, c3 http1.Chunked
		data, used, done, err := decode(&c1, raw, max(1, len(raw)), len(raw)+1)
		data2, used2, done2, err2 := decode(&c2, raw, 1+int(in), 1+int(out))
		data3, used3, done3, err3 := decodeInPlace(&c3, raw, 1+int(in))
		if !bytes.Equal(data, data2) || used != used2 || done != done2 || err != err2 {
			t.Fatalf("whole: %q, %d, %v, %v; in pieces: %q, %d, %v, %v", data, used, done, err, data2, used2,
				done2, err2)
		}
		if !bytes.Equal(data, data3) || used != used3 || done != done3 || err != err3 {
			t.Fatalf("whole: %q, %d, %v, %v; in place: %q, %d, %v, %v", data, used, done, err, data3, used3,
				done3, err3)
		}
		if !done {
			return
		}
		// net/http's reader ends in front of the trailer section. What it reads of an accepted
		// body, it must read alike.
		want, err := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(raw[:used])))
		if err == nil && !bytes.Equal(data, want) {
			t.Fatalf("net/http reads %q, we read %q", want, data)
		}
	})
}

func BenchmarkChunked(b *testing.B) {
	for name, size := range map[string]int{"1B": 1, "4KiB": 4096} {
		b.Run(name, func(b *testing.B) {
			data := strings.Repeat("x", size)
			raw := append(http1.AppendChunkHeader(nil, size), data+http1.ChunkEnd+http1.LastChunk...)
			dst := make([]byte, size)
			b.SetBytes(int64(size))
			for b.Loop() {
				var c http1.Chunked
				if _, _, done, err := c.Decode(dst, raw); !done {
					b.Fatal(err)
				}
			}
		})
	}
}
