package rfc9111_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// TestStorable is about RFC 9111 sections 3 and 3.5: what may be kept at all.
func TestStorable(t *testing.T) {
	post := "POST"
	for _, tt := range []struct {
		name, method, ask string
		status            int
		answer            string
		rules             rfc9111.Rules
		want              rfc9111.Why
	}{
		{name: "fresh", answer: "Cache-Control: max-age=60"},
		{name: "nothing said", want: rfc9111.WhyNoFreshness},
		{name: "POST", method: post, answer: "Cache-Control: max-age=60", want: rfc9111.WhyMethod},
		{name: "HEAD", method: "HEAD", answer: "Cache-Control: max-age=60", want: rfc9111.WhyMethod},
		{name: "no-store", answer: "Cache-Control: max-age=60, No-Store", want: rfc9111.WhyNoStore},
		{name: "no-store on another line", answer: "Cache-Control: max-age=60\nCache-Control: no-store",
			want: rfc9111.WhyNoStore},
		{name: "no-store with an argument", answer: "Cache-Control: max-age=60, no-store=x",
			want: rfc9111.WhyNoStore},
		{name: "request's no-store", ask: "Cache-Control: no-store", answer: "Cache-Control: max-age=60",
			want: rfc9111.WhyRequest},
		{name: "private", answer: "Cache-Control: private, max-age=60", want: rfc9111.WhyPrivate},
		{name: "private and public", answer: "Cache-Control: public, private, max-age=60",
			want: rfc9111.WhyPrivate}, // the stricter one
		{name: "private for a field", answer: `Cache-Control: private="x", max-age=60`},
		{name: "private for no field", answer: `Cache-Control: private="", max-age=60`,
			want: rfc9111.WhyPrivate},
		{name: "private for all and a field", answer: `Cache-Control: private, private="x", max-age=60`,
			want: rfc9111.WhyPrivate},

		{name: "authorized", ask: "Authorization: Basic eA==", answer: "Cache-Control: max-age=60",
			want: rfc9111.WhyAuthorized},
		{name: "authorized, public", ask: "Authorization: Basic eA==",
			answer: "Cache-Control: max-age=60, public"},
		{name: "authorized, must-revalidate", ask: "Authorization: Basic eA==",
			answer: "Cache-Control: max-age=60, must-revalidate"},
		{name: "authorized, s-maxage", ask: "Authorization: Basic eA==",
			answer: "Cache-Control: s-maxage=60"},
		{name: "authorized, proxy-revalidate", ask: "Authorization: Basic eA==",
			answer: "Cache-Control: max-age=60, proxy-revalidate", want: rfc9111.WhyAuthorized},
		{name: "authorized, by a ttl", ask: "Authorization: Basic eA==",
			rules: rfc9111.Rules{TTL: second}, want: rfc9111.WhyAuthorized},

		{name: "cookie", answer: "Cache-Control: max-age=60, public\nSet-Cookie: a=b",
			want: rfc9111.WhySetCookie},
		{name: "cookie, allowed", answer: "Cache-Control: max-age=60\nSet-Cookie: a=b",
			rules: rfc9111.Rules{KeepCookies: true}},
		{name: "cookie, left out",
			answer: "Cache-Control: max-age=60, no-cache=\"Set-Cookie\"\nSet-Cookie: a=b"},
		{name: "cookie, by a ttl", answer: "Set-Cookie: a=b", rules: rfc9111.Rules{TTL: second},
			want: rfc9111.WhySetCookie},

		{name: "Vary: *", answer: "Cache-Control: max-age=60\nVary: Accept, *", want: rfc9111.WhyVary},

		{name: "partial", status: 206, answer: "Cache-Control: max-age=60", want: rfc9111.WhyStatus},
		{name: "not modified", status: 304, answer: "Cache-Control: max-age=60",
			want: rfc9111.WhyStatus},
		{name: "bad range", status: 416, answer: "Cache-Control: max-age=60", want: rfc9111.WhyStatus},
		{name: "interim", status: 103, answer: "Cache-Control: max-age=60", want: rfc9111.WhyStatus},
		{name: "unknown", status: 299, answer: "Cache-Control: max-age=60"},
		{name: "unknown, must-understand", status: 599,
			answer: "Cache-Control: max-age=60, must-understand", want: rfc9111.WhyStatus},
		{name: "understood", answer: "Cache-Control: max-age=60, must-understand, no-store"},
		{name: "error with an age", status: 503, answer: "Cache-Control: max-age=60"},

		{name: "stale, no validator", answer: "Cache-Control: max-age=0", want: rfc9111.WhyNoFreshness},
		{name: "stale, to validate", answer: "Cache-Control: max-age=0\nETag: \"a\""},
		{name: "stale, by date", answer: "Expires: 0\nLast-Modified: Fri, 27 Nov 2026 11:00:00 GMT"},
		{name: "stale, bad validator", answer: "Cache-Control: max-age=0\nETag: a",
			want: rfc9111.WhyNoFreshness},
		{name: "no-cache", answer: "Cache-Control: no-cache, max-age=60", want: rfc9111.WhyNoFreshness},
		{name: "no-cache, to validate", answer: "Cache-Control: no-cache\nETag: \"a\""},
		{name: "validator alone", answer: "ETag: \"a\"", want: rfc9111.WhyNoFreshness},
		{name: "stale, for errors", answer: "Cache-Control: max-age=0, stale-if-error=60"},
		{name: "stale, grace", answer: "Cache-Control: max-age=0",
			rules: rfc9111.Rules{StaleIfError: time.Hour}, want: rfc9111.WhyNoFreshness},
		{name: "Pragma", answer: "Cache-Control: max-age=60\nPragma: no-cache"}, // section 5.4
	} {
		ask := request(tt.ask)
		if tt.method != "" {
			ask.Method = tt.method
		}
		if tt.status == 0 {
			tt.status = 200
		}
		answer := response(tt.status, date+"\n"+tt.answer)
		if _, why := tt.rules.Store(&ask, &answer, now, now); why != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, why, tt.want)
		}
	}
}

// TestLifetime is about RFC 9111 section 4.2.1: which number counts, and what is wrong means stale.
func TestLifetime(t *testing.T) {
	const tag = "\nETag: \"a\"" // so that it is kept
	expires := "\nExpires: Fri, 27 Nov 2026 12:01:00 GMT"
	const stale = -1
	for _, tt := range []struct {
		name, answer string
		rules        rfc9111.Rules
		status       int
		want         time.Duration // TTL; stale: not fresh
	}{
		{"max-age", "Cache-Control: max-age=60", rfc9111.Rules{}, 0, 60 * second},
		{"case", "cache-control: MAX-AGE=60", rfc9111.Rules{}, 0, 60 * second},
		{"quoted", `Cache-Control: max-age="60"`, rfc9111.Rules{}, 0, 60 * second},
		{"leading zeros", "Cache-Control: max-age=0060", rfc9111.Rules{}, 0, 60 * second},
		{"huge", "Cache-Control: max-age=99999999999999999999", rfc9111.Rules{}, 0, 1 << 31 * second},
		{"zero", "Cache-Control: max-age=0", rfc9111.Rules{}, 0, stale},
		{"negative", "Cache-Control: max-age=-60", rfc9111.Rules{}, 0, stale},
		{"decimal", "Cache-Control: max-age=60.0", rfc9111.Rules{}, 0, stale},
		{"letters", "Cache-Control: max-age=60s", rfc9111.Rules{}, 0, stale},
		{"single quotes", "Cache-Control: max-age='60'", rfc9111.Rules{}, 0, stale},
		{"twice the same", "Cache-Control: max-age=60, max-age=60", rfc9111.Rules{}, 0, 60 * second},
		{"twice", "Cache-Control: max-age=60, max-age=30", rfc9111.Rules{}, 0, stale},
		{"twice, another line", "Cache-Control: max-age=30\nCache-Control: max-age=60",
			rfc9111.Rules{}, 0, stale},
		{"in a quoted string", `Cache-Control: x="max-age=60", max-age=5`, rfc9111.Rules{}, 0,
			5 * second},

		{"s-maxage first", "Cache-Control: max-age=5, s-maxage=60", rfc9111.Rules{}, 0, 60 * second},
		{"s-maxage 0", "Cache-Control: max-age=60, s-maxage=0", rfc9111.Rules{}, 0, stale},
		{"bad s-maxage", "Cache-Control: max-age=60, s-maxage=x", rfc9111.Rules{}, 0, stale},

		{"Expires", date + expires, rfc9111.Rules{}, 0, 60 * second},
		{"Expires, no Date", expires[1:], rfc9111.Rules{}, 0, 60 * second},
		{"Expires, bad Date", "Date: soon" + expires, rfc9111.Rules{}, 0, 60 * second},
		{"Expires, slow clock",
			"Date: Fri, 27 Nov 2026 11:00:00 GMT\nExpires: Fri, 27 Nov 2026 12:30:00 GMT",
			rfc9111.Rules{}, 0, 30 * 60 * second},
		{"Expires, fast clock",
			"Date: Fri, 27 Nov 2026 13:00:00 GMT\nExpires: Fri, 27 Nov 2026 13:01:00 GMT",
			rfc9111.Rules{}, 0, 60 * second},
		{"Expires before Date", "Date: Fri, 27 Nov 2026 13:00:00 GMT" + expires, rfc9111.Rules{}, 0,
			stale},
		{"Expires invalid", date + "\nExpires: 0", rfc9111.Rules{TTL: second}, 0, stale},
		{"Expires twice", date + expires + "\nExpires: Fri, 27 Nov 2026 12:02:00 GMT",
			rfc9111.Rules{}, 0, stale},
		{"Expires twice, then one", date + expires + "\nExpires: x" + expires, rfc9111.Rules{}, 0, stale},
		{"max-age before Expires", "Cache-Control: max-age=5" + expires, rfc9111.Rules{}, 0, 5 * second},

		{"ttl", "", rfc9111.Rules{TTL: second}, 0, second},
		{"ttl, old Date", "Date: Fri, 27 Nov 2026 11:00:00 GMT", rfc9111.Rules{TTL: second}, 0, second},
		{"ttl is no override", "Cache-Control: max-age=0", rfc9111.Rules{TTL: second}, 0, stale},
		{"ttl of an error", "", rfc9111.Rules{TTL: second}, 500, second},

		// section 4.2.2
		{"heuristic off", date + "\nLast-Modified: Fri, 27 Nov 2026 11:00:00 GMT", rfc9111.Rules{TTL: 1},
			0, 1},
		{"heuristic", date + "\nLast-Modified: Fri, 27 Nov 2026 11:00:00 GMT",
			rfc9111.Rules{Heuristic: 10, HeuristicMax: time.Hour}, 0, 6 * 60 * second},
		{"heuristic, bound", date + "\nLast-Modified: Fri, 27 Nov 2020 11:00:00 GMT",
			rfc9111.Rules{Heuristic: 10, HeuristicMax: time.Hour}, 0, time.Hour},
		{"heuristic, from the future", date + "\nLast-Modified: Fri, 27 Nov 2026 13:00:00 GMT",
			rfc9111.Rules{Heuristic: 10, HeuristicMax: time.Hour, TTL: second}, 0, second},
		{"heuristic, status", date + "\nLast-Modified: Fri, 27 Nov 2026 11:00:00 GMT",
			rfc9111.Rules{Heuristic: 10, HeuristicMax: time.Hour, TTL: second}, 503, second},
		{"heuristic, public", date +
			"\nCache-Control: public\nLast-Modified: Fri, 27 Nov 2026 11:00:00 GMT",
			rfc9111.Rules{Heuristic: 10, HeuristicMax: time.Hour}, 599, 6 * 60 * second},

		// section 4.2.3
		{"Age", "Cache-Control: max-age=60\nAge: 20", rfc9111.Rules{}, 0, 40 * second},
		{"Age too high", "Cache-Control: max-age=60\nAge: 60", rfc9111.Rules{}, 0, stale},
		{"Age, list", "Cache-Control: max-age=60\nAge: 20, 0", rfc9111.Rules{}, 0, 40 * second},
		{"Age, lines", "Cache-Control: max-age=60\nAge: 20\nAge: 0", rfc9111.Rules{}, 0, 40 * second},
		{"Age invalid", "Cache-Control: max-age=60\nAge: -20", rfc9111.Rules{}, 0, 60 * second},
		{"old Date", "Date: Fri, 27 Nov 2026 11:59:20 GMT\nCache-Control: max-age=60", rfc9111.Rules{}, 0,
			20 * second},
		{"Date and Age", "Date: Fri, 27 Nov 2026 11:59:20 GMT\nCache-Control: max-age=60\nAge: 10",
			rfc9111.Rules{}, 0, 20 * second},
	} {
		if tt.status == 0 {
			tt.status = 200
		}
		ask, answer := request(""), response(tt.status, tt.answer+tag)
		f, why := tt.rules.Store(&ask, &answer, now, now)
		got := f.TTL(now)
		if got <= 0 {
			got = stale
		}
		if why != rfc9111.Kept || got != tt.want {
			t.Errorf("%s: %v, fresh for %v; want %v", tt.name, why, got, tt.want)
		}
	}
}

// TestDelay shows that the time an answer took counts where a cache has sent it, which measured its
// age before (section 4.2.3), and not where it comes from the application.
func TestDelay(t *testing.T) {
	ask := request("")
	for answer, want := range map[string]time.Duration{
		date + "\nCache-Control: max-age=60":                             60 * second,
		date + "\nCache-Control: max-age=60\nAge: 0":                     60 * second,
		date + "\nCache-Control: max-age=60\nAge: 1":                     54 * second,
		"Date: Fri, 27 Nov 2026 11:59:55 GMT\nCache-Control: max-age=60": 55 * second,
	} {
		r := response(200, answer)
		f, _ := new(rfc9111.Rules).Store(&ask, &r, now.Add(-5*second), now)
		if got := f.TTL(now); got != want {
			t.Errorf("%q: fresh for %v, want %v", answer, got, want)
		}
	}
}
