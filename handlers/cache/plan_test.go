package cache_test

import (
	"cmp"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/modules/compression"
	"github.com/lwango/lwango/internal/test/must"
)

// TestPlan: what becomes of a request is decided in one place: whether what is kept is sent, with
// which status, which bytes of it, from where, and in which coding.
func TestPlan(t *testing.T) {
	const (
		page = "Content-Type: text/html\r\nETag: \"v1\"\r\nLast-Modified: Fri, 27 Nov 2026 11:00:00 " +
			"GMT\r\n"
		picture = "Content-Type: image/png\r\nETag: \"v1\"\r\n"
		weak    = "Content-Type: image/png\r\nETag: W/\"v1\"\r\nDate: Fri, 27 Nov 2026 11:30:00 GMT\r\n"
		gzipped = page + "Content-Encoding: gzip\r\n"
		minute  = time.Minute
	)
	now := time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC)
	policy := must.Get(compression.Policy([]string{"zstd", "br", "gzip"}, handlers.Size(256),
		[]string{"text/*"}, 5))(t)
	fresh := func(s cache.Subject) cache.Subject {
		s.Fields, s.Fresh = cmp.Or(s.Fields, page), minute
		s.Status, s.Size = cmp.Or(s.Status, 200), cmp.Or(s.Size, 1000)
		return s
	}
	aged := func(age time.Duration, s cache.Subject) cache.Subject {
		s = fresh(s)
		s.Age = age
		return s
	}
	inFile, coming := fresh(cache.Subject{InFile: true}), fresh(cache.Subject{Coming: true})
	ask := func(fields ...string) cache.Asked { return cache.Asked{Fields: fields} }
	for _, tt := range []struct {
		name string
		ask  cache.Asked
		kept cache.Subject
		want string
	}{
		// May it be sent?
		{"fresh", ask(), fresh(cache.Subject{}), "sends HIT 200 memory 0+1000"},
		{"stale", ask(), aged(minute, cache.Subject{}), "asks for; fwd=stale"},
		{"stale, and the client takes that", ask("Cache-Control: max-stale=10"),
			aged(minute, cache.Subject{}),
			"sends STALE 200 memory 0+1000"},
		{"stale, while it is validated", ask(), aged(minute, cache.Subject{Beside: minute}),
			"sends and asks STALE 200 memory 0+1000"},
		{"the client wants it from the origin", ask("Cache-Control: no-cache"), fresh(cache.Subject{}),
			"asks for; fwd=request"},
		{"the origin wants that", ask(), fresh(cache.Subject{Validate: true}), "asks for; fwd=stale"},
		{"only if cached", ask("Cache-Control: only-if-cached"), fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000"},
		{"only if cached, stale", ask("Cache-Control: only-if-cached"), aged(minute, cache.Subject{}),
			"refuses 504"},
		{"a soft purge", ask(), fresh(cache.Subject{Stale: true}), "asks for; fwd=stale"},
		{"just validated", ask(), fresh(cache.Subject{True: true}),
			"sends REVALIDATED 200 memory 0+1000"},
		{"just validated, always to be", ask(), fresh(cache.Subject{True: true, Validate: true}),
			"sends REVALIDATED 200 memory 0+1000"},
		{"just validated, and purged since", ask(), fresh(cache.Subject{True: true, Stale: true}),
			"asks for; fwd=stale"},
		{"validated, then a refresh is due", ask(),
			aged(minute, cache.Subject{True: true, Beside: minute}),
			"sends and asks STALE 200 memory 0+1000"},

		// From where?
		{"a file", ask(), inFile, "sends HIT 200 file 0+1000"},
		{"HEAD of a file", cache.Asked{Method: "HEAD"}, inFile, "sends HIT 200 length 1000"},
		{"HEAD", cache.Asked{Method: "HEAD"}, fresh(cache.Subject{}), "sends HIT 200 memory 0+1000"},
		{"it comes", ask(), coming, "sends HIT 200 coming 0+1000"},
		{"it comes, its length is not known", ask("Range: bytes=0-9"),
			fresh(cache.Subject{Coming: true, Size: -1}),
			"sends HIT 200 coming 0+-1"},

		// Conditions.
		{"has it", ask(`If-None-Match: "v0", "v1"`), fresh(cache.Subject{}), "sends HIT 304"},
		{"has it, a file", ask(`If-None-Match: "v1"`), inFile, "sends HIT 304"},
		{"has it, HEAD", cache.Asked{Method: "HEAD", Fields: []string{`If-None-Match: "v1"`}}, inFile,
			"sends HIT 304"},
		{"has another one", ask(`If-None-Match: "v0"`,
			"If-Modified-Since: Fri, 27 Nov 2026 11:00:00 GMT"),
			fresh(cache.Subject{}), "sends HIT 200 memory 0+1000"},
		{"by the date", ask("If-Modified-Since: Fri, 27 Nov 2026 11:00:00 GMT"), fresh(cache.Subject{}),
			"sends HIT 304"},
		{"by the date, changed since", ask("If-Modified-Since: Fri, 27 Nov 2026 10:59:59 GMT"),
			fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000"},
		{"by the answer's own date", ask("If-Modified-Since: Fri, 27 Nov 2026 11:30:00 GMT"),
			fresh(cache.Subject{Fields: weak}), "sends HIT 304"},
		{"stale, a condition", ask(`If-None-Match: "v1"`), aged(minute, cache.Subject{}),
			"asks for; fwd=stale"},
		{"an error has no conditions", ask(`If-None-Match: "v1"`), fresh(cache.Subject{Status: 404}),
			"sends HIT 404 memory 0+1000"},
		{"a condition goes before a range", ask(`If-None-Match: "v1"`, "Range: bytes=0-9"),
			fresh(cache.Subject{}),
			"sends HIT 304"},

		// Ranges.
		{"a range", ask("Range: bytes=10-19"), fresh(cache.Subject{}), "sends HIT 206 memory 10+10"},
		{"a range of a file", ask("Range: bytes=-1"), inFile, "sends HIT 206 file 999+1"},
		{"a range of what comes", ask("Range: bytes=10-"), coming, "sends HIT 206 coming 10+990"},
		{"no range of HEAD", cache.Asked{Method: "HEAD", Fields: []string{"Range: bytes=0-9"}}, inFile,
			"sends HIT 200 length 1000"},
		{"not satisfiable", ask("Range: bytes=1000-"), fresh(cache.Subject{}), "sends HIT 416"},
		{"not satisfiable, a file", ask("Range: bytes=1000-"), inFile, "sends HIT 416"},
		{"a bad one", ask("Range: bytes=x"), fresh(cache.Subject{Fields: picture}),
			"sends HIT 200 memory 0+1000"},
		{"two fields", ask("Range: bytes=0-1", "Range: bytes=2-3"), fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000"},
		{"several", ask("Range: bytes=0-1,4-5"), fresh(cache.Subject{}),
			"sends HIT 206 parts [{0 2} {4 2}]"},
		{"several of a file", ask("Range: bytes=0-1,4-5"), inFile, "sends HIT 200 file 0+1000"},
		{"several of what comes", ask("Range: bytes=0-1,4-5"), coming, "sends HIT 200 coming 0+1000"},
		{"several of what is encoded", ask("Range: bytes=0-1,4-5"), fresh(cache.Subject{Fields: gzipped}),
			"sends HIT 200 memory 0+1000"},
		{"If-Range", ask("Range: bytes=0-1", `If-Range: "v1"`), fresh(cache.Subject{}),
			"sends HIT 206 memory 0+2"},
		{"If-Range of another one", ask("Range: bytes=0-1", `If-Range: "v0"`), fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000"},
		{"If-Range, a date", ask("Range: bytes=0-1", "If-Range: Fri, 27 Nov 2026 11:00:00 GMT"),
			fresh(cache.Subject{}),
			"sends HIT 206 memory 0+2"},
		{"If-Range, a date, negotiated", cache.Asked{Hooked: true, Fields: []string{"Range: bytes=0-1",
			"If-Range: Fri, 27 Nov 2026 11:00:00 GMT"}}, fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000"},
		{"an error has no parts", ask("Range: bytes=0-1"), fresh(cache.Subject{Status: 404}),
			"sends HIT 404 memory 0+1000"},

		// Codings.
		{"gzip", ask("Accept-Encoding: gzip, deflate"), fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000 gzip"},
		{"the best", ask("Accept-Encoding: gzip, br"), fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000 br"},
		{"HEAD, gzip", cache.Asked{Method: "HEAD", Fields: []string{"Accept-Encoding: gzip"}},
			fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000 gzip"},
		{"HTTP/1.0", cache.Asked{Protocol: "HTTP/1.0", Fields: []string{"Accept-Encoding: gzip"}},
			fresh(cache.Subject{}),
			"sends HIT 200 memory 0+1000"},
		{"short", ask("Accept-Encoding: gzip"), fresh(cache.Subject{Size: 100}),
			"sends HIT 200 memory 0+100"},
		{"not of that type", ask("Accept-Encoding: gzip"), fresh(cache.Subject{Fields: picture}),
			"sends HIT 200 memory 0+1000"},
		{"encoded already", ask("Accept-Encoding: gzip"), fresh(cache.Subject{Fields: gzipped}),
			"sends HIT 200 memory 0+1000"},
		{"no-transform", ask("Accept-Encoding: gzip"),
			fresh(cache.Subject{Fields: page + "Cache-Control: no-transform\r\n"}),
			"sends HIT 200 memory 0+1000"},
		{"a part is never encoded", ask("Accept-Encoding: gzip", "Range: bytes=0-499"),
			fresh(cache.Subject{}),
			"sends HIT 206 memory 0+500"},
		{"a file is encoded while it is sent", ask("Accept-Encoding: gzip"), inFile,
			"sends HIT 200 file 0+1000"},

		// Other statuses.
		{"a redirect", ask(), fresh(cache.Subject{Status: 301, Size: 5}), "sends HIT 301 memory 0+5"},
		{"a handler's error", ask(), cache.Subject{Status: 404, Own: true, Fresh: minute},
			"sends HIT 404 page"},
		{"another server's error", ask(), cache.Subject{Status: 404, Fresh: minute}, "sends HIT 404"},
		{"an error with a page", ask(), fresh(cache.Subject{Status: 404, Own: true}),
			"sends HIT 404 memory 0+1000"},
		{"an empty page", ask("Range: bytes=0-"), cache.Subject{Status: 200, Fresh: minute},
			"sends HIT 200 memory 0+0"},
	} {
		a := tt.ask
		a.Method, a.Protocol = cmp.Or(a.Method, "GET"), cmp.Or(a.Protocol, "HTTP/1.1")
		if got := cache.Plan(&a, tt.kept, policy, now); got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
	}
}
