package http1_test

import (
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/wire/http1"
)

var benchmarkHeads = []struct{ name, raw string }{
	{"wrk", "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n"},
	{"three",
		"GET /index.html HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nUser-Agent: bench/1.0\r\nConnection: " +
			"keep-alive\r\n\r\n"},
	{"browser",
		"GET /static/app.css?v=12 HTTP/1.1\r\nHost: www.example.org\r\nConnection: keep-alive\r\n" +
			"User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) " +
			"Chrome/124.0.0.0 Safari/537.36\r\n" +
			"Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,*/*;q=0.8\r\nAccept-Encoding: gzip, deflate, br\r\n" +
			"Accept-Language: en-US,en;q=0.9\r\nReferer: https://www.example.org/\r\nCookie: " +
			"session=0123456789abcdef0123456789abcdef; theme=dark\r\n\r\n"},
}

func BenchmarkHead(b *testing.B) {
	for _, bb := range benchmarkHeads {
		b.Run(bb.name, func(b *testing.B) {
			var h http1.Head
			raw := []byte(bb.raw)
			b.SetBytes(int64(len(raw)))
			b.ReportAllocs()
			for b.Loop() {
				h.Reset()
				if n, err := h.Parse(raw); n != len(raw) {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkHeads reads heads that all differ, as those of a server's clients do. One head over and
// over is what branch prediction learns by heart, down to the length of each name and value.
func BenchmarkHeads(b *testing.B) {
	names := []string{"Accept", "User-Agent", "Accept-Encoding", "Cookie", "Referer", "If-None-Match",
		"Cache-Control", "X-Forwarded-For", "Sec-Fetch-Mode", "Upgrade-Insecure-Requests", "DNT"}
	rng := rand.New(rand.NewPCG(1, 2))
	text := func(most int) string { return strings.Repeat("v", 1+rng.IntN(most)) }
	raws := make([][]byte, 1000)
	for i := range raws {
		raw := "GET /" + text(60) + " HTTP/1.1\r\nHost: " + text(25) + "\r\n"
		for range 3 + rng.IntN(8) {
			raw += names[rng.IntN(len(names))] + ": " + text(80) + "\r\n"
		}
		raws[i] = []byte(raw + "\r\n")
	}
	var h http1.Head
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		raw := raws[i%len(raws)]
		h.Reset()
		if n, err := h.Parse(raw); n != len(raw) {
			b.Fatal(err)
		}
	}
}

func TestHeadAllocations(t *testing.T) {
	var h http1.Head
	for _, bb := range benchmarkHeads {
		raw := []byte(bb.raw)
		h.Parse(raw)
		if n := testing.AllocsPerRun(100, func() {
			h.Reset()
			h.Parse(raw[:len(raw)/2])
			h.Parse(raw)
			h.Get(raw, "cookie")
		}); n != 0 {
			t.Errorf("%s: %v allocations", bb.name, n)
		}
	}
	bad := []byte("GET / HTTP/1.1\r\nHost : a\r\n\r\n")
	if n := testing.AllocsPerRun(100, func() { h.Reset(); h.Parse(bad) }); n != 0 {
		t.Errorf("a refusal: %v allocations", n)
	}
}
