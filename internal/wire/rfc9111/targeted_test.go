package rfc9111_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// TestTargeted is about RFC 9213: CDN-Cache-Control replaces Cache-Control and Expires where it is
// a dictionary that is not empty, and else says nothing.
func TestTargeted(t *testing.T) {
	for _, tt := range []struct {
		field    string
		targeted bool
	}{
		{"max-age=60", true},
		{"  max-age=60", true},
		{"foobar, max-age=60", true},
		{"max-age=60;x=1;y, foo=(a \"b\" 1.5);z", true},
		{`a=:aGk=:, b=?0, c="x\"\\", d=tok/en:*, e=-12, f=@1659578233, g=%"%c3%bc", h=()`, true},
		{"max-age=999999999999999", true},
		{"max-age=1, max-age=60", true}, // the last one of a name
		{"no-store=?0, max-age=60", true},
		{"*", true},
		{"", false},
		{"   ", false},
		{"max-age=60,", false},
		{"max-age=60,,no-store", false},
		{"max-age=60, &&&&&", false},
		{`max-age="60"`, false},
		{"max-age=60.0", false},
		{"max-age", false}, // a boolean
		{"no-store=1", false},
		{"no-store=(a)", false},
		{"max-age =60", false},
		{"max-age= 60", false},
		{"Max-Age=60", false}, // keys are small letters
		{"max-age=9999999999999999", false},
		{"max-age=-", false},
		{"a=1.2345", false},
		{"a=1234567890123.1", false},
		{"a=(1 2", false},
		{"a=(1,2)", false},
		{"a=?2", false},
		{"a=\"x", false},
		{`a="\x"`, false},
		{"a=\"\u00fc\"", false},
		{"a=:%:", false},
		{"a=:aGk=", false},
		{`a=%"%C3"`, false},
		{`a=%"%c`, false},
		{"a;=1", false},
		{"a;b=", false},
		{"a=@1.5", false},
		{"1=1", false},
		{"a\tb", false},
	} {
		r := response(200, "Cache-Control: max-age=5\nCDN-Cache-Control: "+tt.field)
		if r.Targeted != tt.targeted || (r.MaxAge == 5*second) != !tt.targeted {
			t.Errorf("%q: targeted %v, max-age %v", tt.field, r.Targeted, r.MaxAge)
		}
	}
}

// TestTargetedDirectives shows that the directives mean what they mean in Cache-Control.
func TestTargetedDirectives(t *testing.T) {
	r := response(200, "CDN-Cache-Control: max-age=60, s-maxage=70, stale-while-revalidate=80\n"+
		"Expires: 0\nCDN-Cache-Control: stale-if-error=90, public, no-cache=\"A\", private=\"B, C\"\n"+
		"CDN-Cache-Control: no-transform, must-revalidate, proxy-revalidate, must-understand\n"+
		"Cache-Control: no-store, private")
	if r.MaxAge != 60*second || r.SMaxAge != 70*second || r.StaleWhileRevalidate != 80*second ||
		r.StaleIfError != 90*second || !r.Public || r.NoCache || r.Private || r.NoStore || r.HasExpires ||
		!r.NoTransform || !r.MustRevalidate || !r.ProxyRevalidate || !r.MustUnderstand {
		t.Errorf("%+v", r)
	}
	if r.Keeps("a") || r.Keeps("c") || !r.Keeps("d") {
		t.Errorf("fields left out: %q", r.Omitted)
	}
	ask := request("")
	for _, tt := range []struct {
		fields string
		want   rfc9111.Why
	}{
		{"Cache-Control: no-store\nCDN-Cache-Control: max-age=60", rfc9111.Kept},
		{"Cache-Control: max-age=60\nCDN-Cache-Control: no-store", rfc9111.WhyNoStore},
		{"Cache-Control: max-age=60\nCDN-Cache-Control: private", rfc9111.WhyPrivate},
		{"Cache-Control: no-store\nCDN-Cache-Control: max-age=60, &", rfc9111.WhyNoStore},
		{"Expires: Fri, 27 Nov 2026 13:00:00 GMT\nCDN-Cache-Control: x", rfc9111.WhyNoFreshness},
		{"CDN-Cache-Control: max-age=-60", rfc9111.WhyNoFreshness},
	} {
		r := response(200, tt.fields)
		if _, why := new(rfc9111.Rules).Store(&ask, &r, now, now); why != tt.want {
			t.Errorf("%q: %v, want %v", tt.fields, why, tt.want)
		}
	}
}

// FuzzTargeted shows that no field breaks the parser, and that what is no dictionary has no effect.
func FuzzTargeted(f *testing.F) {
	for _, s := range []string{"max-age=60", "a=(1 \"b\";c);d=?1", `a=:aGk=:, b="x\"", c=%"%c3%bc"`,
		"a=@1, b=-1.5;x", "no-store, private=\"x\"", "a=(", "*=*", "a=1;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, field string) {
		if strings.ContainsAny(field, "\r\n\x00") {
			return
		}
		r := rfc9111.ReadResponse(200,
			lines{"Cache-Control: max-age=5", "CDN-Cache-Control:" + field}.all())
		if !r.Targeted && (r.MaxAge != 5*second || r.NoStore || len(r.Omitted) > 0) {
			t.Errorf("%q has an effect: %+v", field, r)
		}
		if r.MaxAge < -1 || r.MaxAge > 1<<31*second {
			t.Errorf("%q: max-age %v", field, r.MaxAge)
		}
	})
}

// TestSurrogate is about Surrogate-Control, which comes behind CDN-Cache-Control.
func TestSurrogate(t *testing.T) {
	ask := request("")
	for _, tt := range []struct {
		fields string
		want   rfc9111.Why
		ttl    time.Duration
	}{
		{"Surrogate-Control: max-age=60", rfc9111.Kept, 60 * second},
		{"Cache-Control: no-store\nSurrogate-Control: Max-Age=60", rfc9111.Kept, 60 * second},
		{"Cache-Control: max-age=5\nSurrogate-Control: x, max-age=60", rfc9111.Kept, 60 * second},
		{"Expires: 0\nSurrogate-Control: max-age=60", rfc9111.Kept, 60 * second},
		{"Cache-Control: max-age=60\nSurrogate-Control: no-store", rfc9111.WhyNoStore, 0},
		{"Surrogate-Control: max-age=60, Content=\"ESI/1.0\"", rfc9111.WhyPrivate, 0},
		{"CDN-Cache-Control: max-age=60\nSurrogate-Control: content=\"ESI/1.0\";other",
			rfc9111.WhyPrivate, 0},
		{"Cache-Control: max-age=60\nSurrogate-Control: max-age=0", rfc9111.WhyNoFreshness, 0},
		{"Cache-Control: max-age=5\nSurrogate-Control: max-age=60;other", rfc9111.Kept, 5 * second},
		{"Cache-Control: max-age=5\nSurrogate-Control: no-store;other", rfc9111.Kept, 5 * second},
		{"Cache-Control: no-store\nSurrogate-Control: max-age=60;lwango, no-store;other", rfc9111.Kept,
			60 * second},
		{"Cache-Control: max-age=5\nSurrogate-Control: max-age=60, no-store;lwango",
			rfc9111.WhyNoStore, 0},
		{"Cache-Control: max-age=5\nSurrogate-Control: content=\"ESI/1.0\"", rfc9111.WhyPrivate, 0},
		{"CDN-Cache-Control: max-age=7\nSurrogate-Control: max-age=60", rfc9111.Kept, 7 * second},
		{"CDN-Cache-Control: &\nSurrogate-Control: max-age=60", rfc9111.Kept, 60 * second},
	} {
		r := response(200, tt.fields)
		f, why := new(rfc9111.Rules).Store(&ask, &r, now, now)
		if why != tt.want || f.TTL(now) != tt.ttl && why == rfc9111.Kept {
			t.Errorf("%q: %v, fresh for %v; want %v, %v", tt.fields, why, f.TTL(now), tt.want, tt.ttl)
		}
	}
	r := response(200, "Surrogate-Control: max-age=60+30")
	f, _ := new(rfc9111.Rules).Store(&ask, &r, now, now)
	if got := f.Use(&ask, now.Add(89*second)); got != rfc9111.UseStaleWhileRevalidate {
		t.Errorf("max-age=60+30 after 89 s: use %d", got)
	}
}

// TestAccelExpires is about X-Accel-Expires, which comes behind CDN-Cache-Control.
func TestAccelExpires(t *testing.T) {
	ask := request("")
	for _, tt := range []struct {
		fields string
		want   rfc9111.Why
		ttl    time.Duration
	}{
		{"X-Accel-Expires: 60", rfc9111.Kept, 60 * second},
		{"Cache-Control: no-store\nX-Accel-Expires: 60", rfc9111.Kept, 60 * second},
		{"Cache-Control: private, max-age=5\nExpires: 0\nx-accel-expires: 60", rfc9111.Kept, 60 * second},
		{"Cache-Control: max-age=5\nX-Accel-Expires: 0", rfc9111.WhyNoStore, 0},
		{"Cache-Control: max-age=5\nX-Accel-Expires: @1795780860", rfc9111.Kept, 60 * second},
		{date + "\nCache-Control: no-cache\nX-Accel-Expires: @1795780860", rfc9111.Kept, 60 * second},
		{"Cache-Control: max-age=5\nX-Accel-Expires: @1795780740", rfc9111.WhyNoFreshness, 0},
		{"Cache-Control: max-age=5\nX-Accel-Expires: -1", rfc9111.Kept, 5 * second},
		{"Cache-Control: max-age=5\nX-Accel-Expires: 1h", rfc9111.Kept, 5 * second},
		{"Cache-Control: max-age=5\nX-Accel-Expires: @", rfc9111.Kept, 5 * second},
		{"Cache-Control: max-age=5\nX-Accel-Expires: @9999999999999999999999", rfc9111.Kept, 5 * second},
		{"X-Accel-Expires: 60\nX-Accel-Expires: 0", rfc9111.Kept, 60 * second},
		{"Age: 30\nX-Accel-Expires: 60", rfc9111.Kept, 60 * second},
		{"Age: 30\nX-Accel-Expires: @1795780860", rfc9111.Kept, 60 * second},
		{"CDN-Cache-Control: max-age=7\nX-Accel-Expires: 60", rfc9111.Kept, 7 * second},
		{"Surrogate-Control: max-age=7\nX-Accel-Expires: 60", rfc9111.Kept, 60 * second},
		{"Set-Cookie: a=b\nX-Accel-Expires: 60", rfc9111.WhySetCookie, 0},
		{"Vary: *\nX-Accel-Expires: 60", rfc9111.WhyVary, 0},
	} {
		r := response(200, tt.fields)
		f, why := new(rfc9111.Rules).Store(&ask, &r, now, now)
		if ttl := f.TTL(now).Round(second); why != tt.want || ttl != tt.ttl && why == rfc9111.Kept {
			t.Errorf("%q: %v, fresh for %v; want %v, %v", tt.fields, why, ttl, tt.want, tt.ttl)
		}
		if r.Keeps("X-Accel-Expires") {
			t.Errorf("%q: the field is kept", tt.fields)
		}
	}
	authorized := request("Authorization: x")
	r := response(200, "X-Accel-Expires: 60")
	if _, why := new(rfc9111.Rules).Store(&authorized, &r, now, now); why != rfc9111.WhyAuthorized {
		t.Errorf("with Authorization: %v", why)
	}
}

// TestAccelExpiresLeavesStaleness: X-Accel-Expires says for how long an answer is fresh, and
// nothing of how long it may be sent stale.
func TestAccelExpiresLeavesStaleness(t *testing.T) {
	ask := request("")
	for fields, want := range map[string][2]time.Duration{
		"Cache-Control: stale-while-revalidate=7, stale-if-error=9": {7 * second,
			9 * second},
		"Cache-Control: private, max-age=1, stale-if-error=9": {2 * second,
			9 * second},
		"Cache-Control: max-age=1": {2 * second, 3 * second},
		"Cache-Control: must-revalidate, stale-while-revalidate=7, stale-if-error=9": {2 * second,
			3 * second},
	} {
		r := response(200, fields+"\nX-Accel-Expires: 60")
		rules := rfc9111.Rules{StaleWhileRevalidate: 2 * second, StaleIfError: 3 * second}
		f, why := rules.Store(&ask, &r, now, now)
		if got := [2]time.Duration{f.StaleWhileRevalidate, f.StaleIfError}; got != want ||
			why != rfc9111.Kept {
			t.Errorf("%s: %v, %v, want %v", fields, why, got, want)
		}
	}
}
