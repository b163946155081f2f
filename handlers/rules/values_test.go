package rules_test

import (
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/test/must"
)

// TestPHPNames: no spelling of a name that PHP takes for the one of a rule gets past it, and none
// gets what a rule keeps for the very name.
func TestPHPNames(t *testing.T) {
	holds := func(change func(*rules.Settings), q *request) bool {
		set := must.Get(rules.Compile(
			[]rules.Rule{rule(func(s *rules.Settings) { s.Deny = 404; change(s) })}, "", handlers.Env{}))(t)
		q.path = []byte("/")
		return set.Holds(q) == 1
	}
	for _, c := range []struct {
		query       string
		same, exact bool
	}{
		{"rest_route=/wp", true, true}, {"a=1&rest%5Froute=/wp", true, true},
		{"+rest_route=/wp", true, true},
		{"rest.route=/wp", true, false}, {"rest%20route=/wp", true, false},
		{"rest+route=/wp", true, false},
		{"rest[route=/wp", true, false}, {"rest%5Broute=/wp", true, false},
		{"a&+rest%2Eroute%00x=/wp", true, false},
		{"rest_route[]=/wp", true, false}, {"rest.route[x][y]=/wp", true, false},
		{"rest_route[/wp]=1", true, false},
		{"rest-route=/wp", false, false}, {"rest_route=/x", false, false},
		{"rest_routes=/wp", false, false}, {"rest[rout]e=/wp", false, false},
		{"x[rest_route]=/wp", false, false}, {"[rest_route=/wp", false, false}, {"", false, false},
	} {
		q := &request{query: []byte(c.query)}
		if got := holds(func(s *rules.Settings) { s.Query = map[string][]string{"rest_route": {"/wp"}} },
			q); got != c.same {
			t.Errorf("query %s: %t", c.query, got)
		}
		if got := holds(func(s *rules.Settings) {
			s.Not.Query = map[string][]string{"rest_route": {"/wp"}}
		}, q); got == c.exact {
			t.Errorf("not query %s: %t", c.query, got)
		}
	}
	for cookie, want := range map[string][2]bool{
		"a_b=1": {true, true}, "x=2; a.b=1": {true, false}, "a[b=\"1\"": {true, false},
		"a_b[1]=0": {true, false}, "a-b=1": {}, "a.b=2": {},
	} {
		q := &request{cookie: []byte(cookie)}
		if got := holds(func(s *rules.Settings) { s.Cookie = map[string][]string{"a_b": {"1"}} },
			q); got != want[0] {
			t.Errorf("cookie %s: %t", cookie, got)
		}
		if got := holds(func(s *rules.Settings) { s.Not.Cookie = map[string][]string{"a_b": {"1"}} },
			q); got == want[1] {
			t.Errorf("not cookie %s: %t", cookie, got)
		}
	}
}

func TestValuePattern(t *testing.T) {
	for _, c := range []struct {
		pattern, value string
		want           bool
	}{
		{"", "", true}, {"", "a", false}, {"*", "a/b", true}, {"*bot*", "a/bot", true},
		{"~^a+$", "aaa", true}, {"~^a+$", "ab", false}, {"~(?i)bot", "GoogleBOT/1", true},
	} {
		if got, err := rules.Value(c.pattern, []byte(c.value)); got != c.want || err != nil {
			t.Errorf("%q, %q: got %v, %v", c.pattern, c.value, got, err)
		}
	}
}
