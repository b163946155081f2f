package cache_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/cache"
)

// TestSortQuery: parameters are sorted by their names, unless their order may matter or they are
// too many to sort on a loop.
func TestSortQuery(t *testing.T) {
	many := func(n int) string { return strings.Repeat("b&", n-1) + "a" }
	for _, tt := range [][2]string{
		{"b=1&a=2", "a=2&b=1"},
		{"b[]=1&a[x]=2", "a[x]=2&b[]=1"},
		{"b=[&a=2", "a=2&b=["},
		{"a_b=2&a[b=1", ""}, // to PHP, both are a_b
		{"b=2&a[b=]", ""},
		{"b=2&a[b%5D=1", ""},
		{"b=2&%61=1", ""},
		{many(128), "a&" + strings.TrimSuffix(strings.Repeat("b&", 127), "&")},
		{many(129), ""},
		{"b=" + strings.Repeat("x", 8<<10) + "&a", ""},
	} {
		want := tt[1]
		if want == "" {
			want = tt[0]
		}
		if got := string(cache.SortQuery([]byte("/?"+tt[0]), 0)); got != "/?"+want {
			t.Errorf("%.50s: %.50s, want %.50s", tt[0], got, want)
		}
	}
}

// TestManyTags: each tag is copied once, however many come: copying those before with each of
// 32,768 took 0.6 s of a loop.
func TestManyTags(t *testing.T) {
	if tags := cache.AppendTags([]byte("a"), "b , c,,", ","); string(tags) != "a b c" {
		t.Errorf("%q", tags)
	}
	list := strings.Repeat("t ", 32<<10)
	if n := testing.AllocsPerRun(1, func() { cache.AppendTags(nil, list, " ") }); n > 100 {
		t.Errorf("%v allocations", n)
	}
}
