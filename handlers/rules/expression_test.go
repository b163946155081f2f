package rules_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/rules"
)

// TestFilter: the filter refuses what it can, and never what the expression matches.
func TestFilter(t *testing.T) {
	for _, c := range []struct{ expression, refused, passed string }{
		{`^/page/(?<name>.+)$`, "/ /a/page/x /pag", "/page/x /page/"},
		{`^/(?:a|b)/x`, "/c/x /a/y", "/a/x /b/xy"},
		{`\.(?:sql|bak|old)$`, "/a.css /sql /a.sqlx", "/a.sql /b/c.bak"},
		{`(?i)\.(sql|bak)$`, "/a.css", "/a.SQL /a.bak /a.ba\u212a"},
		{`^/(index|home)\.php$`, "/index.html /x", "/index.php /home.php"},
		{`/wp-admin/.*\.php`, "/wp-content/a.php", "/wp-admin/a.php /x/wp-admin/.php"},
		{`^/x?y`, "/z", "/y /xy"},
		{`^/[abc]d`, "/dd", "/ad /bd"},
		{`(?i)^/ADMIN`, "/x", "/admin /Admin/x"},
		{`^/([a-z][a-z])/(.*)$`, "/ /e /e/ /eN/x /blog/x /e\u212a/", "/en/ /de/x"},
		{`^/[a-z]+[0-9]/x$`, "/1 / /A/x", "/a1/x /ab2/x"},
		{`^/[ab]{3}c`, "/aab /acac", "/abac /bbbc/x"},
		{`^/(?i)[ab]/k`, "/c/k", "/a/k /B/K /a/\u212a"},
		{`^/[^/]+/x`, "x", "/\xff/x /a/x"},
		{`^/a|/b$`, "", "/x /a /b"},
		{`(?m)^/a$`, "/x", "/a /b/a"},
		{`.*`, "", "/"},
		{`^.*x{3}$`, "/xx /a", "/xxx"},
		{`\x{fffd}`, "", "/\xff"},
	} {
		for _, text := range strings.Fields(c.refused) {
			if passes, matches, err := rules.Filtered(c.expression, []byte(text)); passes || matches ||
				err != nil {
				t.Errorf("%s lets %q pass (%v, %v)", c.expression, text, matches, err)
			}
		}
		for _, text := range strings.Fields(c.passed) {
			if passes, _, err := rules.Filtered(c.expression, []byte(text)); !passes || err != nil {
				t.Errorf("%s refuses %q: %v", c.expression, text, err)
			}
		}
	}
}

func TestExpressionErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":  "an empty expression matches everything",
		"(": "missing closing ): `(`",
		"(?=a)": "invalid or unsupported Perl syntax: `(?=` (the syntax is RE2's, " +
			"without look-around)",
		`(a)\1`: "invalid escape sequence: `\\1` (the syntax is RE2's, without " +
			"back-references)",
		"(?<path>a)":               "a group cannot be called path: {path} is a part of the request",
		"a{1001}":                  "invalid repeat count: `{1001}`",
		strings.Repeat("a", 16385): "an expression has at most 16384 bytes, not 16385",
		strings.Repeat("(", 5000) + strings.Repeat(")", 5000): "expression nests too deeply: `" +
			strings.Repeat("(", 60) + "...`",
	} {
		if _, _, err := rules.Filtered(text, nil); err == nil || err.Error() != want {
			t.Errorf("%.20q: got  %v\nwant %s", text, err, want)
		}
	}
}

// An expression of 10 kB works, also on the longest path that a request head has room for.
func TestLongExpression(t *testing.T) {
	var words []string
	for i := range 1300 {
		words = append(words, strings.Repeat(string(rune('a'+i%26)), i%5+1)+"word")
	}
	expression := "/(?:" + strings.Join(words, "|") + ")/end$"
	if len(expression) < 10000 {
		t.Fatal(len(expression))
	}
	path := strings.Repeat("/aaaword", 2000)
	for _, c := range []struct {
		path string
		want bool
	}{{path, false}, {path + "/end", true}} {
		if _, got, err := rules.Filtered(expression, []byte(c.path)); got != c.want || err != nil {
			t.Errorf("got %v, %v", got, err)
		}
	}
}

func FuzzExpression(f *testing.F) {
	for _, x := range []string{`^/page/(?<name>.+)$`, `(?i)\.(sql|bak)$`, `a(b|c)?d[e-g]$`, `^(?:|x)y`,
		`(?i)k`, `\x{fffd}a`, `(a$|^b)`, `^(^a)$$`} {
		f.Add(x, []byte("/page/a"))
		f.Add(x, []byte("\u212a\xff.SQL"))
	}
	f.Fuzz(func(t *testing.T, expression string, text []byte) {
		if len(expression) > 100 || len(text) > 200 {
			return
		}
		passes, matches, err := rules.Filtered(expression, text)
		if err == nil && matches && !passes {
			t.Errorf("the filter of %q refuses %q", expression, text)
		}
	})
}
