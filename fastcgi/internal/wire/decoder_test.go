package wire_test

import (
	"encoding/binary"
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/fastcgi/internal/wire"
	"github.com/lwango/lwango/internal/wire/cgi"
)

// rec is a record as an application may send it, right or wrong.
func rec(version, typ byte, id uint16, content string, padding int) string {
	h := []byte{version, typ, byte(id >> 8), byte(id), byte(len(content) >> 8), byte(len(content)),
		byte(padding), 0}
	return string(h) + content + strings.Repeat("\xaa", padding)
}

func out(s string) string { return rec(1, 6, 1, s, -len(s)&7) }
func bad(s string) string { return rec(1, 7, 1, s, 0) }

const end = "\x01\x03\x00\x01\x00\x08\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00"

var full = strings.Repeat("0123456789abcdef", 4096)[:65535]

// responses are what applications send and what must come of it: STDOUT, then STDERR behind "!",
// then "end" or "cut" or the error, and "odd" if records were passed over.
var responses = []struct {
	raw, want string
	err       error
}{
	{out("hello") + end, "hello end", nil},
	{end, " end", nil},
	{out("a") + out("b") + rec(1, 6, 1, "", 0) + end, "ab end", nil},
	{rec(1, 6, 1, "x", 255) + end, "x end", nil},
	{rec(1, 6, 1, full, 255) + end, full + " end", nil},
	// an empty record before the begin: php bug 72185
	{rec(1, 6, 1, "", 255) + out("x") + end, "x end", nil},
	{out("a") + rec(1, 6, 1, "", 0) + out("b") + end, "ab end", nil}, // and one in the middle
	{bad("oops") + out("x") + bad("again") + rec(1, 7, 1, "", 0) + end, "x!oopsagain end", nil},
	{bad(full) + out("x") + end, "x!" + full + " end", nil},
	{rec(1, 3, 1, "\x00\x00\x00\x03\x00\x00\x00\x00", 200), " end 3/0", nil}, // exit code 3
	{rec(1, 3, 1, "\xff\xff\xff\xff\x02\x00\x00\x00", 0), " end 4294967295/2", nil},
	// Records that have no place in a response.
	{rec(1, 11, 0, "\x2a\x00\x00\x00\x00\x00\x00\x00", 0) + out("x") + end, "x end odd1", nil},
	{out("x") + rec(1, 10, 0, "\x0f\x01FCGI_MPXS_CONNS0", 5) + out("y") + end, "xy end odd1", nil},
	{out("x") + rec(1, 42, 1, "z", 7) + rec(1, 42, 0, full, 255) + out("y") + end, "xy end odd2",
		nil},
	{rec(1, 11, 1, "12345678", 0) + end, " end odd1", nil},
	// Cut short.
	{"", " cut", nil},
	{out("x"), "x cut", nil},
	{out("x") + end[:7], "x cut", nil},
	{out("x") + end[:8], "x cut", nil},
	{out("x") + end[:15], "x cut", nil},
	{rec(1, 6, 1, "hello", 0)[:10], "he cut", nil},
	// Not to be taken for anything else.
	{rec(0, 6, 1, "x", 0), "", wire.ErrVersion},
	{out("x") + rec(2, 6, 1, "y", 0), "x", wire.ErrVersion},
	{"Status: 200 OK\r\n", "", wire.ErrVersion}, // a server of HTTP or of CGI without FastCGI
	{"HTTP", "", wire.ErrVersion},               // and one that says too little for a header
	{"\x00", "", wire.ErrVersion},
	{rec(1, 6, 2, "x", 0), "", wire.ErrID},
	{rec(1, 6, 0x0101, "x", 0), "", wire.ErrID},
	{rec(1, 6, 0, "x", 0), "", wire.ErrID},
	{rec(1, 7, 3, "x", 0), "", wire.ErrID},
	{rec(1, 3, 7, "12345678", 0), "", wire.ErrID},
	{rec(1, 3, 7, "1", 0), "", wire.ErrID},
	{rec(1, 42, 7, "1", 0), "", wire.ErrID},
	{rec(1, 1, 1, "\x00\x01\x00\x00\x00\x00\x00\x00", 0), "", wire.ErrType},
	{rec(1, 2, 1, "", 0), "", wire.ErrType},
	{rec(1, 4, 1, "", 0), "", wire.ErrType},
	{out("x") + rec(1, 5, 1, "echo", 0), "x", wire.ErrType}, // our own bytes, sent back
	{rec(1, 8, 1, "", 0), "", wire.ErrType},
	{rec(1, 9, 0, "", 0), "", wire.ErrType},
	{rec(1, 3, 1, "", 0), "", wire.ErrEnd},
	{rec(1, 3, 1, "1234567", 0), "", wire.ErrEnd},
	{out("x") + rec(1, 3, 1, "123456789", 0), "x", wire.ErrEnd},
}

// decode gives d the bytes in pieces that end at cuts, each in a buffer of its own, and says what
// came of them. used is how many bytes were taken until the end, if there was one.
func decode(d *wire.Decoder, raw string, cuts ...int) (got string, used int, err error) {
	var stdout, stderr strings.Builder
	from := 0
	for _, to := range append(cuts, len(raw)) {
		piece := []byte(raw[from:to])
		from = to
		for {
			typ, data, n, e := d.Next(piece)
			if e != nil {
				return say(d, &stdout, &stderr), 0, e
			}
			if n > len(piece) || (len(data) > 0) != (typ == wire.Stdout || typ == wire.Stderr) ||
				len(data) > n {
				e = fmt.Errorf("views are wrong: %v, %d of %d bytes, data %q", typ, n, len(piece),
					data)
				return "", 0, e
			}
			used += n
			piece = piece[n:]
			switch typ {
			case wire.Stdout:
				stdout.Write(data)
				continue
			case wire.Stderr:
				stderr.Write(data)
				continue
			case wire.EndRequest:
				if len(piece) > 0 { // what follows the response is not touched
					return say(d, &stdout, &stderr), used, nil
				}
			default:
				if len(piece) > 0 {
					return "", 0, fmt.Errorf("%d bytes were left", len(piece))
				}
			}
			break
		}
	}
	return say(d, &stdout, &stderr), used, nil
}

func say(d *wire.Decoder, stdout, stderr *strings.Builder) string {
	s := stdout.String()
	if stderr.Len() > 0 {
		s += "!" + stderr.String()
	}
	if _, _, _, err := d.Next(nil); err != nil {
		return s
	}
	if !d.Done() {
		return s + " cut"
	}
	s += " end"
	if e := d.End(); e != (wire.End{}) {
		s += fmt.Sprintf(" %d/%d", e.AppStatus, e.Protocol)
	}
	if n := d.Skipped(); n > 0 {
		s += fmt.Sprint(" odd", n)
	}
	return s
}

func everyByte(raw string) (cuts []int) {
	for i := range len(raw) {
		cuts = append(cuts, i)
	}
	return cuts
}

// ways calls f for raw whole, byte by byte, and cut in two at every byte.
func ways(raw string, f func(cuts ...int)) {
	f()
	f(everyByte(raw)...)
	if len(raw) < 500 {
		for i := range len(raw) {
			f(i)
		}
	}
}

func TestDecoder(t *testing.T) {
	for _, tt := range responses {
		var d wire.Decoder
		ways(tt.raw, func(cuts ...int) {
			d.Reset() // of whatever came before
			got, used, err := decode(&d, tt.raw, cuts...)
			if got != tt.want || err != tt.err {
				t.Fatalf("%.200q cut at %.20v\n got %.200q, %v\nwant %.200q, %v",
					tt.raw, cuts, got, err, tt.want, tt.err)
			}
			if err == nil && used != len(tt.raw) {
				t.Fatalf("%.200q cut at %.20v: %d bytes used", tt.raw, cuts, used)
			}
			if _, _, _, again := d.Next([]byte(end)); again != err {
				t.Fatalf("%.200q: a later call gives %v", tt.raw, again)
			}
		})
	}
}

// Of what comes behind the response, nothing is touched, and Reset makes ready for it.
func TestDecoderFollowed(t *testing.T) {
	raw := out("first") + rec(1, 3, 1, "\x00\x00\x00\x00\x00\x00\x00\x00", 3)
	next := out("second") + end
	ways(raw+next, func(cuts ...int) {
		if len(cuts) > 1 {
			return // the pieces of the second response would be in other hands
		}
		var d wire.Decoder
		got, used, err := decode(&d, raw+next, cuts...)
		if got != "first end" || err != nil || used != len(raw) {
			t.Fatalf("cut at %v: %q, %d of %d, %v", cuts, got, used, len(raw), err)
		}
		if !d.Reusable() {
			t.Fatal("not reusable")
		}
		d.Reset()
		if got, _, err := decode(&d, next); got != "second end" || err != nil {
			t.Fatalf("the second: %q, %v", got, err)
		}
	})
}

func TestReusable(t *testing.T) {
	for _, tt := range []struct {
		raw  string
		want bool
	}{
		{out("x") + end, true},
		{out("x"), false},
		{out("x") + end[:15], false},
		// An exit code is the program's affair.
		{rec(1, 3, 1, "\x00\x00\x00\x07\x00\x00\x00\x00", 9), true},
		// Padding is still to come.
		{rec(1, 3, 1, "\x00\x00\x00\x00\x00\x00\x00\x00", 9)[:24], false},
		// A protocolStatus is not.
		{rec(1, 3, 1, "\x00\x00\x00\x00\x01\x00\x00\x00", 0), false},
		// What comes next is unknown.
		{rec(1, 42, 1, "", 0) + end, false},
		{rec(1, 11, 0, "\x01\x00\x00\x00\x00\x00\x00\x00", 0) + end, false},
		{rec(1, 6, 1, "x", 0) + rec(1, 6, 2, "x", 0), false},
		// The caller has to find that.
		{rec(1, 3, 1, "\x00\x00\x00\x00\x00\x00\x00\x00", 9) + "more", true},
	} {
		var d wire.Decoder
		decode(&d, tt.raw)
		if d.Reusable() != tt.want {
			t.Errorf("%q: %v", tt.raw, d.Reusable())
		}
	}
}

func TestEndErr(t *testing.T) {
	for status, want := range map[wire.ProtocolStatus]*cgi.Error{
		wire.CantMultiplex: wire.ErrCantMultiplex, wire.Overloaded: wire.ErrOverloaded,
		wire.UnknownRole: wire.ErrUnknownRole,
		4:                wire.ErrProtocolStatus, 255: wire.ErrProtocolStatus,
	} {
		if err := (wire.End{Protocol: status}).Err(); err != want {
			t.Errorf("%d: %v", status, err)
		}
	}
	if err := (wire.End{AppStatus: 255}).Err(); err != nil {
		t.Error(err)
	}
	if wire.ErrOverloaded.Status != 503 || wire.ErrCantMultiplex.Status != 502 ||
		wire.ErrUnknownRole.Status != 502 {
		t.Error("the statuses are not those of the specification of this proxy")
	}
	if s := wire.ErrOverloaded.Error(); s != "503: application is overloaded" {
		t.Error(s)
	}
}

// naive reads the records of a whole response, and gives what say does.
func naive(raw string) (got string, err error) {
	var stdout, stderr, tail string
	odd := 0
	for tail == "" {
		if len(raw) < 8 {
			if raw != "" && raw[0] != 1 {
				err = wire.ErrVersion
				break
			}
			tail = " cut"
			break
		}
		typ, id := raw[1], binary.BigEndian.Uint16([]byte(raw[2:]))
		n, pad := int(binary.BigEndian.Uint16([]byte(raw[4:]))), int(raw[6])
		switch {
		case raw[0] != 1:
			err = wire.ErrVersion
		case strings.IndexByte("\x01\x02\x04\x05\x08\x09", typ) >= 0:
			err = wire.ErrType
		case id != 1 && (id != 0 || typ == 3 || typ == 6 || typ == 7):
			err = wire.ErrID
		case typ == 3 && n != 8:
			err = wire.ErrEnd
		}
		if err != nil {
			break
		}
		if typ != 3 && typ != 6 && typ != 7 {
			odd++
		}
		raw = raw[8:]
		have := min(n, len(raw))
		switch {
		case typ == 6:
			stdout += raw[:have]
		case typ == 7:
			stderr += raw[:have]
		case typ == 3 && have == 8:
			tail = " end"
			if app := binary.BigEndian.Uint32([]byte(raw)); app != 0 || raw[4] != 0 {
				tail += fmt.Sprintf(" %d/%d", app, raw[4])
			}
			if odd > 0 {
				tail += fmt.Sprint(" odd", odd)
			}
		}
		raw = raw[min(n+pad, len(raw)):]
	}
	if stderr != "" {
		stdout += "!" + stderr
	}
	return stdout + tail, err
}

func FuzzDecoder(f *testing.F) {
	for _, tt := range responses {
		if len(tt.raw) < 1000 {
			f.Add([]byte(tt.raw), uint(9))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte, cut uint) {
		raw := string(b)
		want, wantErr := naive(raw)
		for _, cuts := range [][]int{nil, {int(cut % uint(len(raw)+1))}, everyByte(raw)} {
			var d wire.Decoder
			if got, _, err := decode(&d, raw, cuts...); got != want || err != wantErr {
				t.Fatalf("%q cut at %v\n got %q, %v\nwant %q, %v", raw, cuts, got, err, want,
					wantErr)
			}
		}
	})
}

func TestDecoderAllocations(t *testing.T) {
	raw := []byte(out("Status: 200\r\n\r\n") + bad("oops") + rec(1, 11, 0, "12345678", 0) +
		out("body") + end)
	var d wire.Decoder
	if n := testing.AllocsPerRun(100, func() {
		d.Reset()
		for i := range raw { // the worst that can be done to it
			d.Next(raw[i : i+1])
		}
		if d.Reset(); d.Done() {
			t.Error("done after Reset")
		}
		d.Next([]byte("HTTP/1.1"))
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkDecoder(b *testing.B) {
	for _, bb := range []struct{ name, raw string }{
		{"hello", out("X-Powered-By: PHP/8.2\r\nContent-type: text/html\r\n\r\nhello") + end},
		{"64K", strings.Repeat(out(full[:8184]), 8) + end},
	} {
		b.Run(bb.name, func(b *testing.B) {
			raw := []byte(bb.raw)
			var d wire.Decoder
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				d.Reset()
				for rest := raw; !d.Done(); {
					_, _, n, _ := d.Next(rest)
					rest = rest[n:]
				}
			}
		})
	}
}

func BenchmarkHead(b *testing.B) {
	buf := make([]byte, 0, 4096)
	b.ReportAllocs()
	for b.Loop() {
		var h wire.Head
		h.Begin(buf, true)
		for range 30 {
			h.Add("HTTP_ACCEPT_LANGUAGE", "en-US,en;q=0.9")
		}
		if p, err := h.Finish(); err != nil || len(p) == 0 {
			b.Fatal(err)
		}
	}
}
