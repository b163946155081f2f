package rfc9111_test

import (
	"testing"

	"github.com/lwango/lwango/internal/wire/rfc9111"
)

// TestKeeps is about RFC 9111 section 3.1.
func TestKeeps(t *testing.T) {
	r := response(200,
		"Connection: x-hop, close\nCache-Control: no-cache=\"X-A\", private=\"x-b , X-C\"")
	for name, want := range map[string]bool{"Content-Type": true, "Set-Cookie": true, "Date": true,
		"Via": true, "Vary": true, "CDN-Cache-Control": true, "Content-Range": true,
		"Connection": false, "keep-alive": false, "TE": false, "Transfer-Encoding": false,
		"Upgrade": false, "Proxy-Authenticate": false, "Proxy-Authorization": false,
		"Proxy-Authentication-Info": false, "Proxy-Connection": false, "Content-Length": false,
		"Age": false, "Cache-Status": false, "Trailer": false,
		"X-Accel-Expires": false, "cache-tag": false, "Surrogate-Key": false, "Surrogate-Control": true,
		"X-Hop": false, "X-a": false, "X-b": false, "x-c": false, "X-D": true} {
		if got := r.Keeps(name); got != want {
			t.Errorf("Keeps(%q) = %v", name, got)
		}
	}
}

// TestForThisCache: the names are compared without the case of letters, and those of tags have what
// stands between tags.
func TestForThisCache(t *testing.T) {
	for _, tt := range []struct {
		name, separator string
		want            bool
	}{
		{"Cache-Tag", ",", true},
		{"surrogate-key", " ", true},
		{"x-accel-expires", "", true},
		{"X-Accel-Redirect", "", false},
		{"CDN-Cache-Control", "", false},
		{"", "", false},
	} {
		is, separator := rfc9111.IsForThisCache(tt.name), rfc9111.TagSeparator(tt.name)
		if is != tt.want || separator != tt.separator {
			t.Errorf("%q: %v, %q", tt.name, is, separator)
		}
	}
}

// TestUpdates is about RFC 9111 section 3.2.
func TestUpdates(t *testing.T) {
	r := response(304, "Connection: x-hop")
	for name, want := range map[string]bool{"Cache-Control": true, "Expires": true, "Date": true,
		"Content-Type": true, "Content-Location": true, "X-Anything": true, "Last-Modified": true,
		"content-length": false, "Content-Encoding": false, "Content-Range": false,
		"Content-MD5": false, "ETag": false, "Digest": false, "Repr-Digest": false,
		"Content-Digest": false, "x-hop": false, "Connection": false, "Age": false} {
		if got := r.Updates(name); got != want {
			t.Errorf("Updates(%q) = %v", name, got)
		}
	}
}

// TestValidates is about RFC 9111 section 4.3.4.
func TestValidates(t *testing.T) {
	const lm = "Last-Modified: Fri, 27 Nov 2026 11:00:00 GMT"
	at := response(200, lm).LastModified
	for _, tt := range []struct {
		fields, etag string
		modified     int64
		want         bool
	}{
		{`ETag: "a"`, `"a"`, 0, true},
		{`ETag: "a"`, `"b"`, 0, false},
		{`ETag: "a"`, `W/"a"`, 0, false}, // the strong one is of a state that may differ from ours
		{`ETag: "a"`, "", at, false},
		{`ETag: W/"a"`, `W/"a"`, 0, true},
		{`ETag: W/"a"`, `"a"`, 0, true},
		{`ETag: W/"a"`, `"b"`, 0, false},
		{lm, "", at, true},
		{lm, `"a"`, at, true},
		{lm, "", at - 1, false},
		{"", `"a"`, at, true}, // it says nothing: it is about what was asked
		{`ETag: a`, `"a"`, 0, true},
	} {
		r := response(304, tt.fields)
		if got := r.Validates(tt.etag, tt.modified); got != tt.want {
			t.Errorf("%q of %q, %d: %v", tt.fields, tt.etag, tt.modified, got)
		}
	}
}

// TestInvalidates is about RFC 9111 section 4.4.
func TestInvalidates(t *testing.T) {
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH", "M-SEARCH", "get"} {
		for status, want := range map[int]bool{103: false, 200: true, 204: true, 303: true, 404: false,
			500: false} {
			if got := rfc9111.Invalidates(method, status); got != want {
				t.Errorf("%s, %d: %v", method, status, got)
			}
		}
	}
	for _, method := range []string{"GET", "HEAD", "OPTIONS", "TRACE", "QUERY"} {
		if rfc9111.Invalidates(method, 200) {
			t.Errorf("%s does", method)
		}
	}
	for _, tt := range []struct{ location, want string }{
		{"/b?c=d", "/b?c=d"},
		{"b", "/a/b"},
		{"../b", "/b"},
		{"?x", "/a/target?x"},
		{"", "/a/target?q"},
		{"#fragment", "/a/target?q"},
		{"http://example.org", "/"},
		{"HTTP://EXAMPLE.ORG:80/b%2Fc", "/b%2Fc"},
		{"http://example.org:080/b", "/b"},
		{"//example.org/b", "/b"},
		{"https://example.org/b", ""},
		{"http://example.org:8080/b", ""},
		{"http://example.com/b", ""},
		{"//example.com/b", ""},
		{"mailto:a@example.org", ""},
		{"http:b", ""},
		{"%zz", ""},
	} {
		got, ok := rfc9111.Target("http", "example.org", "/a/target?q", tt.location)
		if got != tt.want || ok != (tt.want != "") {
			t.Errorf("%q: %q, %v; want %q", tt.location, got, ok, tt.want)
		}
	}
	if _, ok := rfc9111.Target("http", "example.org", "*", "/b"); ok {
		t.Error("a target that is no path")
	}
	if got, ok := rfc9111.Target("https", "[::1]:443", "/", "https://[::1]/x"); !ok || got != "/x" {
		t.Errorf("an IPv6 authority: %q, %v", got, ok)
	}
}

// TestCacheStatus is about RFC 9211 section 2.
func TestCacheStatus(t *testing.T) {
	for want, s := range map[string]rfc9111.CacheStatus{
		"lwango; hit":         {Cache: "lwango", Hit: true},
		"lwango; hit; ttl=59": {Cache: "lwango", Hit: true, HasTTL: true, TTL: 59*second + 9e8},
		"lwango; hit; ttl=-1": {Cache: "lwango", Hit: true, HasTTL: true, TTL: -1},
		"lwango; hit; ttl=-2": {Cache: "lwango", Hit: true, HasTTL: true, TTL: -2 * second},
		"lwango; fwd=uri-miss; fwd-status=404; stored; collapsed; ttl=5; key=\"a\\\"\\\\?\"; detail=vary": {
			Cache: "lwango", Forward: rfc9111.ForwardURIMiss, FwdStatus: 404, Stored: true, Collapsed: true,
			HasTTL: true, TTL: 5 * second, Key: "a\"\\\n", Detail: rfc9111.WhyVary.String()},
		"c; fwd=bypass":    {Cache: "c", Forward: rfc9111.ForwardBypass},
		"c; fwd=method":    {Cache: "c", Forward: rfc9111.ForwardMethod},
		"c; fwd=vary-miss": {Cache: "c", Forward: rfc9111.ForwardVaryMiss},
		"c; fwd=miss":      {Cache: "c", Forward: rfc9111.ForwardMiss},
		"c; fwd=request":   {Cache: "c", Forward: rfc9111.ForwardRequest},
		"c; fwd=stale":     {Cache: "c", Forward: rfc9111.ForwardStale},
		"c; fwd=partial":   {Cache: "c", Forward: rfc9111.ForwardPartial},
	} {
		if got := string(s.Append(nil)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
