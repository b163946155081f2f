package rfc9111_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// TestUse is about RFC 9111 sections 4, 4.2.4 and 5.2.1, and RFC 5861 section 3.
func TestUse(t *testing.T) {
	const (
		fresh     = rfc9111.UseFresh
		stale     = rfc9111.UseStale
		while     = rfc9111.UseStaleWhileRevalidate
		validated = rfc9111.UseAfterValidation
		nothing   = rfc9111.UseGatewayTimeout
	)
	for _, tt := range []struct {
		name, answer string
		after        time.Duration
		ask          string
		want         rfc9111.Use
	}{
		{"fresh", "max-age=60", 59 * second, "", fresh},
		{"at its end", "max-age=60", 60 * second, "", validated},
		{"no-cache", "max-age=60, no-cache", 0, "", validated},
		{"no-cache for a field", `max-age=60, no-cache="x"`, 0, "", fresh},
		{"must-revalidate is fresh", "max-age=60, must-revalidate", 0, "", fresh},

		{"request's max-age", "max-age=60", 10 * second, "Cache-Control: max-age=10", fresh},
		{"request's max-age, too old", "max-age=60", 11 * second, "Cache-Control: max-age=10", validated},
		{"request's max-age=0", "max-age=60", 0, "Cache-Control: max-age=0", validated},
		{"two max-age", "max-age=60", 11 * second, "Cache-Control: max-age=10, max-age=20", validated},
		{"bad max-age", "max-age=60", 11 * second, "Cache-Control: max-age=x", fresh},
		{"min-fresh", "max-age=60", 10 * second, "Cache-Control: min-fresh=50", fresh},
		{"min-fresh, too old", "max-age=60", 11 * second, "Cache-Control: min-fresh=50", validated},
		{"max-stale", "max-age=60", 70 * second, "Cache-Control: max-stale=10", stale},
		{"max-stale, too old", "max-age=60", 71 * second, "Cache-Control: max-stale=10", validated},
		{"max-stale without end", "max-age=60", 1e6 * second, "Cache-Control: max-stale", stale},
		{"max-stale, must-revalidate", "max-age=60, must-revalidate", 61 * second,
			"Cache-Control: max-stale", validated},
		{"max-stale, proxy-revalidate", "max-age=60, proxy-revalidate", 61 * second,
			"Cache-Control: max-stale", validated},
		{"max-stale, s-maxage", "s-maxage=60", 61 * second, "Cache-Control: max-stale", validated},
		{"request's no-cache", "max-age=60", 0, "Cache-Control: no-cache", validated},
		{"Pragma", "max-age=60", 0, "Pragma: no-cache", validated},
		{"Pragma beside Cache-Control", "max-age=60", 0, "Pragma: no-cache\nCache-Control: x", fresh},
		{"only-if-cached", "max-age=60", 0, "Cache-Control: only-if-cached", fresh},
		{"only-if-cached, stale", "max-age=60", 60 * second, "Cache-Control: only-if-cached", nothing},

		{"while", "max-age=60, stale-while-revalidate=30", 89 * second, "", while},
		{"while, too old", "max-age=60, stale-while-revalidate=30", 90 * second, "", validated},
		{"while, must-revalidate", "max-age=60, stale-while-revalidate=30, must-revalidate",
			61 * second, "", validated},
		{"while, s-maxage", "s-maxage=60, stale-while-revalidate=30", 61 * second, "", while},
		{"while, max-age=0", "max-age=0, stale-while-revalidate=30", second, "", while},
		{"while, request's max-age", "max-age=60, stale-while-revalidate=30", 61 * second,
			"Cache-Control: max-age=30", validated},
		{"while, min-fresh", "max-age=60, stale-while-revalidate=30", 61 * second,
			"Cache-Control: min-fresh=1", validated},
		{"while, bad", "max-age=60, stale-while-revalidate=x", 61 * second, "", validated},
		{"while, only-if-cached", "max-age=60, stale-while-revalidate=30", 61 * second,
			"Cache-Control: only-if-cached", while},

		{"the clock was put back", "max-age=60", -time.Hour, "", fresh},
	} {
		ask := request("")
		answer := response(200, date+"\nETag: \"a\"\nCache-Control: "+tt.answer)
		f, why := new(rfc9111.Rules).Store(&ask, &answer, now, now)
		again := request(tt.ask)
		if got := f.Use(&again, now.Add(tt.after)); why != rfc9111.Kept || got != tt.want {
			t.Errorf("%s: %v, use %d, want %d", tt.name, why, got, tt.want)
		}
	}
}

// TestIfError is about RFC 5861 section 4, and what RFC 9111 section 4.2.4 forbids.
func TestIfError(t *testing.T) {
	grace := rfc9111.Rules{StaleIfError: time.Hour}
	for _, tt := range []struct {
		name, answer string
		rules        rfc9111.Rules
		after        time.Duration
		ask          string
		want         bool
	}{
		{"not said", "max-age=60", rfc9111.Rules{}, 61 * second, "", false},
		{"said", "max-age=60, stale-if-error=30", rfc9111.Rules{}, 89 * second, "", true},
		{"too old", "max-age=60, stale-if-error=30", rfc9111.Rules{}, 90 * second, "", false},
		{"grace", "max-age=60", grace, 61 * second, "", true},
		{"answer before grace", "max-age=60, stale-if-error=0", grace, 61 * second, "", false},
		{"grace, must-revalidate", "max-age=60, must-revalidate", grace, 61 * second, "", false},
		{"grace, proxy-revalidate", "max-age=60, proxy-revalidate", grace, 61 * second, "", false},
		{"grace, s-maxage", "s-maxage=60", grace, 61 * second, "", false},
		{"said, s-maxage", "s-maxage=60, stale-if-error=30", grace, 61 * second, "", true},
		{"said, must-revalidate", "max-age=60, must-revalidate, stale-if-error=30", grace,
			61 * second, "", false},
		{"no-cache", "max-age=60, no-cache, stale-if-error=30", grace, 0, "", false},
		{"request's no-cache", "max-age=60", grace, 61 * second, "Cache-Control: no-cache", false},
	} {
		ask := request("")
		answer := response(200, date+"\nETag: \"a\"\nCache-Control: "+tt.answer)
		f, _ := tt.rules.Store(&ask, &answer, now, now)
		again := request(tt.ask)
		if got := f.IfError(&again, now.Add(tt.after)); got != tt.want {
			t.Errorf("%s: %v", tt.name, got)
		}
	}
	for status, want := range map[int]bool{200: false, 404: false, 500: true, 501: false, 502: true,
		503: true, 504: true, 505: false} {
		if rfc9111.Failed(status) != want {
			t.Errorf("Failed(%d) = %v", status, !want)
		}
	}
}

// TestExpire shows a soft purge: stale at once, and for as long usable as a stale answer would be.
func TestExpire(t *testing.T) {
	ask := request("")
	answer := response(200, date+"\nCache-Control: max-age=60, stale-while-revalidate=30")
	f, _ := new(rfc9111.Rules).Store(&ask, &answer, now, now)
	at := now.Add(10 * second)
	f.Expire(at)
	for after, want := range map[time.Duration]rfc9111.Use{0: rfc9111.UseStaleWhileRevalidate,
		29 * second: rfc9111.UseStaleWhileRevalidate, 30 * second: rfc9111.UseAfterValidation} {
		if got := f.Use(&ask, at.Add(after)); got != want {
			t.Errorf("%v later: use %d, want %d", after, got, want)
		}
	}
	f.Expire(at.Add(time.Hour))
	if got := f.TTL(at); got != 0 {
		t.Errorf("a second purge made it fresh until %v", got)
	}
}

// TestHitCost shows that a hit reads the request and decides without an allocation.
func TestHitCost(t *testing.T) {
	var fields rfc9111.Fields = headers{{"Cache-Control", []byte("max-age=30, only-if-cached")},
		{"Accept-Encoding", []byte("gzip, deflate, br;q=0.9")}, {"Foo", []byte("a,  b")}}
	ask := request("")
	answer := response(200, "Cache-Control: max-age=60\nVary: Accept-Encoding, Foo")
	f, _ := new(rfc9111.Rules).Store(&ask, &answer, now, now)
	key := make([]byte, 0, 256)
	cache := rfc9111.CacheStatus{Cache: "lwango", Hit: true, HasTTL: true}
	if n := testing.AllocsPerRun(100, func() {
		ask := rfc9111.ReadRequest("GET", fields)
		key = answer.Vary.AppendKey(key[:0], fields)
		if f.Use(&ask, now) != rfc9111.UseFresh {
			t.Error("not fresh")
		}
		cache.TTL = f.TTL(now)
		key = cache.Append(key[:0])
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

type headers []struct {
	name  string
	value []byte
}

func (h headers) HeaderViewFrom(name string, from int) (value []byte, next int) {
	for i := from; i < len(h); i++ {
		if len(h[i].name) == len(name) && (h[i].name == name || lower(h[i].name) == name) {
			return h[i].value, i + 1
		}
	}
	return nil, -1
}

func lower(name string) string {
	switch name {
	case "Accept-Encoding":
		return "accept-encoding"
	case "Foo":
		return "foo"
	}
	return name
}

// TestDatesInAnyCase: to a cache the case of a date does not matter (RFC 9111 section 4.2). What is
// no date is in the past.
func TestDatesInAnyCase(t *testing.T) {
	ask := request("")
	date := now.Add(time.Hour)
	for value, fresh := range map[string]bool{
		date.Format(http.TimeFormat):                                              true,
		strings.ToLower(date.Format(http.TimeFormat)):                             true,
		strings.ToUpper(date.Format(http.TimeFormat)):                             true,
		strings.ToUpper(date.Format("Monday, 02-Jan-06 15:04:05 GMT")):            true,
		strings.ToLower(date.Format(time.ANSIC)):                                  true,
		strings.ReplaceAll(date.Format(http.TimeFormat), "GMT", "UTC"):            false,
		strings.ReplaceAll(date.Format(http.TimeFormat), "GMT", "gmt gmt"):        false,
		strings.ToLower(date.Format(http.TimeFormat)) + strings.Repeat("x", 1000): false,
		"":    false,
		"gmt": false,
	} {
		r := response(200, "ETag: \"x\"\nExpires: "+value)
		f, why := new(rfc9111.Rules).Store(&ask, &r, now, now)
		if got := f.TTL(now) > 0; got != fresh || why != rfc9111.Kept {
			t.Errorf("%.60q: fresh %v, %v", value, got, why)
		}
	}
}
