package template

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// Text is literal text and placeholders in turn, at least one piece. It does not change.
type Text []Piece

// Piece is literal text or, where it has a name, a placeholder.
type Piece struct{ Text, Name string }

// word is what is taken for the name of a placeholder.
var word = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_.-]*$`)

// Parse reads a text with placeholders of these names, such as {path}; "cookie.*" is for any name
// that begins with "cookie.". A brace that encloses neither one of them nor another word stands for
// itself: a text may be JSON.
func Parse(text string, known []string) (t Text, err error) {
	literal := 0 // where the text begins that is not in t yet
	for i := 0; i < len(text); i++ {
		if text[i] != '{' {
			continue
		}
		name, _, closed := strings.Cut(text[i+1:], "}")
		switch {
		case closed && isKnown(name, known):
		case closed && word.MatchString(name):
			return nil, unknown(text, name, known)
		default:
			continue
		}
		if literal < i {
			t = append(t, Piece{Text: text[literal:i]})
		}
		t = append(t, Piece{Name: name})
		i += len(name) + 1
		literal = i + 1
	}
	if literal < len(text) || text == "" {
		t = append(t, Piece{Text: text[literal:]})
	}
	return t, nil
}

func isKnown(name string, known []string) bool {
	return slices.Contains(known, name) || slices.ContainsFunc(known, func(k string) bool {
		start, family := strings.CutSuffix(k, "*")
		return family && len(name) > len(start) && strings.HasPrefix(name, start) &&
			word.MatchString(name)
	})
}

// Literal reports whether t has no placeholders.
func (t Text) Literal() bool { return len(t) == 1 && t[0].Name == "" }

// foreign is a placeholder of other servers. Unrefused, it would be passed on as it stands.
var foreign = regexp.MustCompile(`\$(\w+|$)`)

// Foreign returns a placeholder of other servers that is in text, "" if there is none.
func Foreign(text string) string { return foreign.FindString(text) }

// variable is a variable of nginx that people look for in the configuration of a proxy.
var variable = regexp.MustCompile(
	`\$(remote_(addr|port|user)|host|hostname|scheme|uri|request\w*|` +
		`args|query_string|document_\w+|realpath_root|server_\w+|proxy_\w+|http_\w+|cookie_\w+|` +
		`arg_\w+|ssl_\w+|upstream_\w+|binary_remote_addr|is_args|connection\w*)\b`)

// Variable returns a variable of nginx that is in text, "" if there is none. Any other word behind
// a $ may be meant: a $ is common in passwords.
func Variable(text string) string { return variable.FindString(text) }

func unknown(text, name string, known []string) error {
	return fmt.Errorf("%q: unknown placeholder {%s} (known: %s)", text, name, List(known))
}

// List names placeholders for people.
func List(names []string) string { return "{" + strings.Join(names, "}, {") + "}" }
