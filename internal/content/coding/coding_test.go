package coding_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
)

var ranks = []struct{ accept, want, why string }{
	{"gzip, deflate, br, zstd", "zstd br gzip", "browsers"},
	{"gzip", "gzip", ""},
	{"GZip", "gzip", "names have no case"},
	{"x-gzip", "gzip", "RFC 9110 section 8.4.1.3"},
	{"", "", "no coding is wanted"},
	{" , ,, ", "", "an empty list"},
	{"identity", "", ""},
	{"compress, deflate, foo", "", "codings that we do not have"},
	{"*", "zstd br gzip", "all are as good as none"},
	{"*;q=0", "", ""},
	{"gzip;q=0", "", ""},
	{"gzip;q=0, *", "zstd br", "what is named is not meant by *"},
	{"gzip, *;q=0", "gzip", ""},
	{"identity;q=0, gzip", "gzip", ""},
	{"identity;q=0", "", "the body goes out as it is: there is nothing better"},
	{"br;q=0.5, gzip;q=0.8", "gzip br", "by weight"},
	{"gzip;q=1.0, br;q=1, zstd;q=1.000", "zstd br gzip", "equal weights: our order"},
	{"gzip;q=0.001", "gzip", "the least weight"},
	{"gzip;q=0.5, identity", "", "the client prefers none"},
	{"gzip;q=0.5, identity;q=0.5", "gzip", "equal: smaller is better"},
	{"gzip;q=0.5, *;q=0.8", "zstd br", "* means identity, too"},
	{"gzip ; q=0.5 , br\t;\tQ=0.7", "br gzip", "white space, and a large Q"},
	{"gzip;q=", "", "malformed elements are left out"},
	{"gzip;q=2", "", ""},
	{"gzip;q=1.001", "", ""},
	{"gzip;q=0.0001", "", "more than three digits"},
	{"gzip;q=-1, br", "br", ""},
	{"gzip;q=.5", "", "no digit in front"},
	{"gzip;q=0.", "", ""},
	{"gzip;q=1.", "gzip", "the grammar allows it"},
	{"gzip;level=3", "", "no such parameter"},
	{"gzip;q=1;q=0", "", ""},
	{"gzip;;q=1", "", ""},
	{"\"gzip\"", "", ""},
	{"gzip, gzip;q=0", "", "the last one counts"},
	{strings.Repeat("gzip;q=0.1,", 700) + "br", "br gzip", "8 kB"},
	{strings.Repeat("x,", 4000), "", "8 kB"},
}

func TestRank(t *testing.T) {
	for _, tt := range ranks {
		var a coding.Accept
		a.Add([]byte(tt.accept))
		var got []string
		for _, c := range a.Rank(nil, coding.All) {
			got = append(got, c.String())
		}
		if strings.Join(got, " ") != tt.want {
			t.Errorf("%.60q: got %q, want %q %s", tt.accept, got, tt.want, tt.why)
		}
	}
	list := []byte("gzip;q=0.5, deflate, br, zstd")
	if n := testing.AllocsPerRun(100, func() {
		var space [coding.Kinds]coding.Coding
		var a coding.Accept
		a.Add(list)
		if len(a.Rank(space[:0], coding.All)) != 3 {
			t.Error("not 3")
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// FuzzAccept: whatever a client sends, it gets codings that it has named, each once and by weight,
// and the fields that it splits its list into make no difference.
func FuzzAccept(f *testing.F) {
	for _, tt := range ranks {
		f.Add(tt.accept, "br")
	}
	f.Fuzz(func(t *testing.T, one, two string) {
		var joined, split coding.Accept
		joined.Add([]byte(one + "," + two))
		split.Add([]byte(one))
		split.Add([]byte(two))
		if joined != split {
			t.Fatalf("%q and %q make a difference when they are joined", one, two)
		}
		ranked := joined.Rank(nil, coding.All)
		lower := strings.ToLower(one + "," + two)
		for i, c := range ranked {
			if slices.Contains(ranked[:i], c) || !slices.Contains(coding.All, c) {
				t.Fatalf("%v", ranked)
			}
			if !strings.Contains(lower, c.String()) && !strings.Contains(lower, "*") {
				t.Fatalf("%q: %v was not named", lower, c)
			}
		}
	})
}

func TestTypes(t *testing.T) {
	types, bad, ok := coding.ParseTypes(
		[]string{"Text/*", "application/json", "*+xml", "a/" + strings.Repeat("b", 78)})
	if !ok {
		t.Fatal(bad)
	}
	for contentType, want := range map[string]bool{
		"text/html":                       true,
		"TEXT/HTML ; charset=utf-8":       true,
		"text/":                           false,
		"textile/html":                    false,
		"application/json;charset=utf-8":  true,
		"application/json5":               false,
		"image/svg+xml":                   true,
		"image/png":                       false,
		"+xml":                            false,
		"":                                false,
		";":                               false,
		"text/event-stream":               false,
		"text/event-stream; x=y":          false,
		"a/" + strings.Repeat("b", 78):    true,
		"a/" + strings.Repeat("b", 79):    false,
		"text/" + strings.Repeat("b", 99): false,
	} {
		if got := types.Match(contentType); got != want {
			t.Errorf("%q: %v", contentType, got)
		}
		if n := testing.AllocsPerRun(10, func() { types.Match(contentType) }); n != 0 {
			t.Errorf("%q: %v allocations", contentType, n)
		}
	}
	fresh, _, _ := coding.ParseTypes([]string{"text/*"})
	buf := []byte("tape/plain")                   // both have the same place in what is remembered
	fresh.Match(unsafe.String(&buf[0], len(buf))) // false
	copy(buf, "text/plain")
	if !fresh.Match("text/plain") || fresh.Match("tape/plain") {
		t.Error("what was found out of a type counts for what its memory holds now")
	}
	events, _, _ := coding.ParseTypes([]string{"text/*", coding.EventStream})
	if !events.Match(coding.EventStream) {
		t.Error("an event stream that is named does not match")
	}
	for _, bad := range []string{"", "text", "text/", "/x", "*", "*/*", "text/html; charset=utf-8",
		"*+", "te*/x",
		"a/" + strings.Repeat("b", 79)} {
		if _, named, ok := coding.ParseTypes([]string{"a/b", bad}); ok || named != bad {
			t.Errorf("%q was not refused", bad)
		}
	}
}

// TestTypesOfOneAnswer: types that are new with each answer take no place in what is remembered.
func TestTypesOfOneAnswer(t *testing.T) {
	types, _, _ := coding.ParseTypes([]string{"text/*"})
	for _, before := range []string{"multipart/byteranges; boundary=", "text/x;charset=utf-8; a=",
		"text/plain;a="} {
		longer := before
		if n := testing.AllocsPerRun(10, func() {
			longer = before + "0123456789abcdef"[:len(longer)-len(before)+1]
			types.Match(longer)
		}); n > 1 {
			t.Errorf("%q: %v allocations, of which one is the test's", before, n)
		}
	}
}

// BenchmarkMatch asks for what a server asks again and again, and for what is new each time.
func BenchmarkMatch(b *testing.B) {
	types, _, _ := coding.ParseTypes([]string{"text/*", "application/json", "*+json", "*+xml"})
	for _, contentType := range []string{"text/html; charset=utf-8", "application/octet-stream"} {
		other := contentType[:1] + "x" + contentType[2:] // its place is taken
		b.Run(contentType+"/known", func(b *testing.B) {
			for b.Loop() {
				types.Match(contentType)
			}
		})
		b.Run(contentType+"/another", func(b *testing.B) {
			types.Match(contentType)
			for b.Loop() {
				types.Match(other)
			}
		})
	}
}

func decode(t *testing.T, c coding.Coding, body []byte) []byte {
	t.Helper()
	out, err := io.ReadAll(decoder(t, c, bytes.NewReader(body)))
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return out
}

func decoder(t *testing.T, c coding.Coding, r io.Reader) io.Reader {
	switch c {
	case coding.Brotli:
		return brotli.NewReader(r)
	case coding.Zstd:
		z := must.Get(zstd.NewReader(r, zstd.WithDecoderConcurrency(1)))(t)
		t.Cleanup(z.Close)
		return z
	}
	z := must.Get(gzip.NewReader(r))(t)
	return z
}

// TestEncoder: each flush makes what was written readable, whatever is given up behind it, and an
// encoder that was given back in the middle of a body leaves nothing for the next one.
func TestEncoder(t *testing.T) {
	text := []byte(strings.Repeat("All work and no play makes Jack a dull boy. ", 3000))
	for _, c := range coding.All {
		for _, level := range []int{1, 4, 9} {
			t.Run(fmt.Sprint(c, level), func(t *testing.T) {
				for range 3 {
					e := coding.NewEncoder(c, level)
					var out bytes.Buffer
					e.Begin(&out)
					e.Write(text[:5000])
					e.Release()
					if level == 1 && out.Len() > 5000 {
						t.Error("not shorter")
					}

					out.Reset()
					e = coding.NewEncoder(c, level)
					e.Begin(&out)
					for at := 0; at < len(text); at += 10_000 {
						piece := text[at:min(at+10_000, len(text))]
						if _, err := e.Write(piece); err != nil {
							t.Fatal(err)
						}
						must.Do(t, e.Flush())
						got := make([]byte, at+len(piece))
						_, err := io.ReadFull(decoder(t, c, bytes.NewReader(out.Bytes())), got)
						if err != nil || !bytes.HasPrefix(text, got) {
							t.Fatalf("at %d: %v", at, err)
						}
						e.Rest()
					}
					must.Do(t, e.Close())
					if !bytes.Equal(decode(t, c, out.Bytes()), text) {
						t.Error("not what was written")
					}
					e.Release()
				}
			})
		}
	}
}

func TestEncodersAreBounded(t *testing.T) {
	var all []*coding.Encoder
	most := int(coding.MaxMemory / coding.Cost(coding.Gzip, 1))
	for len(all) <= most {
		e := coding.NewEncoder(coding.Gzip, 1)
		if e == nil {
			break
		}
		all = append(all, e)
	}
	if len(all) != most {
		t.Errorf("%d encoders", len(all))
	}
	for _, e := range all {
		e.Release()
	}
	if e := coding.NewEncoder(coding.Gzip, 1); e == nil {
		t.Error("none after all were released")
	} else {
		e.Release()
	}
}

// TestEncodersAtRest: one that rests takes nothing from the others. If there is no memory for it
// when it goes on, what is written goes out as it is, within the same body.
func TestEncodersAtRest(t *testing.T) {
	text := []byte(strings.Repeat("All work and no play makes Jack a dull boy. ", 4000))
	most := int(coding.MaxMemory / coding.Cost(coding.Gzip, 1))
	for _, crowded := range []string{"never", "for a while", "to the end"} {
		e := coding.NewEncoder(coding.Gzip, 4)
		var out bytes.Buffer
		e.Begin(&out)
		write := func(p []byte) {
			t.Helper()
			if n, err := e.Write(p); n != len(p) || err != nil {
				t.Fatal(n, err)
			}
			must.Do(t, e.Flush())
		}
		write(text[:1000])
		e.Rest()
		others := func(n int) (all []*coding.Encoder) {
			for range n {
				if o := coding.NewEncoder(coding.Gzip, 1); o != nil {
					all = append(all, o)
				}
			}
			return all
		}
		release := func(all []*coding.Encoder) {
			for _, o := range all {
				o.Release()
			}
		}
		all := others(most + 1)
		if len(all) != most {
			t.Errorf("%d encoders beside one that rests", len(all))
		}
		if crowded == "never" {
			release(all)
			write(text[1000:])
		} else {
			write(text[1000:100_000])
			if out.Len() < 99_000 {
				t.Error("encoded without memory")
			}
			if crowded == "for a while" {
				release(all)
			}
			write(text[100_000:])
		}
		must.Do(t, e.Close())
		if !bytes.Equal(decode(t, coding.Gzip, out.Bytes()), text) {
			t.Errorf("crowded %s: not what was written", crowded)
		}
		e.Release()
		if crowded == "to the end" {
			release(all)
		}
		release(others(1))
	}
	all := make([]*coding.Encoder, 0, 200)
	for e := coding.NewEncoder(coding.Gzip, 1); e != nil; e = coding.NewEncoder(coding.Gzip, 1) {
		all = append(all, e)
		e.Rest()
		if len(all) == cap(all) {
			break
		}
	}
	if len(all) != cap(all) {
		t.Errorf("only %d that rest", len(all))
	}
	for _, e := range all {
		e.Release()
	}
	TestEncodersAreBounded(t)
}

// TestCosts: an encoder takes about what it is counted as, and so it stays bounded what all take.
func TestCosts(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector takes memory, too")
	var text strings.Builder
	random := rand.New(rand.NewPCG(1, 2))
	for text.Len() < 512<<10 { // as many words as a book has
		fmt.Fprintf(&text, "%x ", int(random.ExpFloat64()*5000))
	}
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC() // which empties the pools
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	for _, c := range coding.All {
		for level := 1; level <= 9; level++ {
			before := heap()
			e := coding.NewEncoder(c, level)
			e.Begin(io.Discard)
			_, err := io.CopyBuffer(struct{ io.Writer }{e}, struct {
				io.Reader
			}{strings.NewReader(text.String())},
				make([]byte, 16<<10))
			if err != nil {
				t.Error(err)
			}
			took := heap() - before
			if counted := coding.Cost(c, level); took > counted*5/4 || took < counted/2 {
				t.Errorf("%v, level %d: %d KiB, counted as %d", c, level, took>>10, counted>>10)
			}
			e.Release()
		}
	}
}
