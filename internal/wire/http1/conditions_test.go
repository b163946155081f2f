package http1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// fieldLines are lines of a header section, "Name: value" each.
type fieldLines []string

// HeaderViewFrom implements http1.Fields.
func (l fieldLines) HeaderViewFrom(name string, from int) (value []byte, next int) {
	for i := from; i < len(l); i++ {
		if n, v, _ := strings.Cut(l[i], ":"); ascii.EqualFold(n, name) {
			return []byte(ascii.TrimOWS(v)), i + 1
		}
	}
	return nil, -1
}

// TestPrecondition is about RFC 9110 section 13.2.2: which fields count, and in which order.
func TestPrecondition(t *testing.T) {
	const (
		older = "Sun, 06 Nov 1994 08:49:36 GMT"
		same  = "Sun, 06 Nov 1994 08:49:37 GMT"
		newer = "Sun, 06 Nov 1994 08:49:38 GMT"
	)
	state := http1.Validators{ETag: `"a"`, Modified: 784111777, Dated: true}
	dated := http1.Validators{Modified: 784111777, Dated: true}
	for _, tt := range []struct {
		fields string
		v      http1.Validators
		want   int // of GET and HEAD
		change int // of other methods
	}{
		{fields: "", v: state},
		{fields: `If-Match: "a"`, v: state},
		{fields: `If-Match: "b"|If-Match: "a"`, v: state},
		{fields: `If-Match: W/"a"`, v: state, want: 412, change: 412},
		{fields: "If-Match: *", v: dated},
		{fields: "If-Match: *", want: 412, change: 412},
		{fields: "If-Match: \"a\"|If-Unmodified-Since: " + older, v: state}, // the tag decides
		{fields: "If-Unmodified-Since: " + older, v: state, want: 412, change: 412},
		{fields: "If-Unmodified-Since: " + same, v: state},
		{fields: "If-Unmodified-Since: " + older + "|If-Unmodified-Since: " + older, v: state},
		{fields: "If-Unmodified-Since: " + older},
		{fields: `If-None-Match: W/"a"`, v: state, want: 304, change: 412},
		{fields: `If-None-Match: "b", "a"`, v: state, want: 304, change: 412},
		{fields: "If-None-Match: \"b\"|If-Modified-Since: " + newer, v: state},
		{fields: "If-None-Match: *", v: dated, want: 304, change: 412},
		{fields: "If-Modified-Since: " + same, v: state, want: 304},
		{fields: "If-Modified-Since: " + newer, v: state, want: 304},
		{fields: "If-Modified-Since: " + older, v: state},
		{fields: "If-Modified-Since: soon", v: state},
		{fields: "If-Modified-Since: " + same},
	} {
		var h fieldLines
		if tt.fields != "" {
			h = strings.Split(tt.fields, "|")
		}
		if got := http1.Precondition(h, tt.v, true); got != tt.want {
			t.Errorf("%q to read: %d, want %d", tt.fields, got, tt.want)
		}
		if got := http1.Precondition(h, tt.v, false); got != tt.change {
			t.Errorf("%q to change: %d, want %d", tt.fields, got, tt.change)
		}
	}
}

// TestRangeApplies is about RFC 9110 section 13.1.5.
func TestRangeApplies(t *testing.T) {
	const date = "If-Range: Sun, 06 Nov 1994 08:49:37 GMT"
	state := http1.Validators{ETag: `"a"`, Modified: 784111777, Dated: true}
	now := time.Unix(784111777+2, 0)
	for _, tt := range []struct {
		fields     string
		now        time.Time
		negotiated bool
		want       bool
	}{
		{"", now, false, true},
		{`If-Range: "a"`, now, true, true},
		{`If-Range: "b"`, now, false, false},
		{`If-Range: W/"a"`, now, false, false},
		{`If-Range: "a"|If-Range: "a"`, now, false, false},
		{date, now, false, true},
		{date, now, true, false},
		{date, now.Add(-2 * time.Second), false, false}, // within its second it may change again
		{"If-Range: Sun, 06 Nov 1994 08:49:38 GMT", now, false, false},
	} {
		var h fieldLines
		if tt.fields != "" {
			h = strings.Split(tt.fields, "|")
		}
		if got := http1.RangeApplies(h, state, tt.now, tt.negotiated); got != tt.want {
			t.Errorf("%q: %v", tt.fields, got)
		}
	}
}

// kept is a header section whose values cost nothing to look at.
type kept struct {
	name  string
	value []byte
}

func (k *kept) HeaderViewFrom(name string, from int) (value []byte, next int) {
	if from == 0 && name == k.name {
		return k.value, 1
	}
	return nil, -1
}

// TestPreconditionCost shows that conditions cost no allocation, whatever they are.
func TestPreconditionCost(t *testing.T) {
	state := http1.Validators{ETag: `"a-tag-that-is-too-long-for-a-buffer-on-the-stack"`,
		Modified: 784111777,
		Dated:    true}
	for _, k := range []*kept{
		{"If-None-Match", []byte(`W/"another-tag-that-is-as-long-as-the-first-one", ` + state.ETag)},
		{"If-Modified-Since", []byte("Sun, 06 Nov 1994 08:49:37 GMT")},
	} {
		if n := testing.AllocsPerRun(100, func() {
			if http1.Precondition(k, state, true) != http1.NotModified || !http1.RangeApplies(k, state,
				time.Unix(1e9, 0), false) {
				t.Error(k.name)
			}
		}); n != 0 {
			t.Errorf("%s: %v allocations", k.name, n)
		}
	}
}
