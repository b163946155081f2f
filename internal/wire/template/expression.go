package template

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
)

// maxExpression bounds the text of an expression, in bytes. Matching takes time in proportion to
// the length of the expression times that of the text, whatever the two are.
const maxExpression = 16 << 10

// Expression compiles a regular expression of a configuration, and returns the names of its groups,
// from the first on, as placeholders have them: one without a name has its number. Errors say what
// the syntax has not.
func Expression(text string) (re *regexp.Regexp, groups []string, err error) {
	if text == "" {
		return nil, nil, errors.New("an empty expression matches everything")
	}
	if len(text) > maxExpression {
		return nil, nil, fmt.Errorf("an expression has at most %d bytes, not %d", maxExpression,
			len(text))
	}
	re, err = regexp.Compile(text)
	if err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			switch e.Code {
			case syntax.ErrInvalidPerlOp:
				return nil, nil, fmt.Errorf("%s: `%s` (the syntax is RE2's, without look-around)",
					e.Code, Clip(e.Expr))
			case syntax.ErrInvalidEscape:
				return nil, nil, fmt.Errorf("%s: `%s` (the syntax is RE2's, without back-references)",
					e.Code, Clip(e.Expr))
			}
			return nil, nil, fmt.Errorf("%s: `%s`", e.Code, Clip(e.Expr))
		}
		return nil, nil, err
	}
	for i, name := range re.SubexpNames()[1:] {
		switch {
		case name == "":
			name = strconv.Itoa(i + 1)
		case Own(name):
			return nil, nil, fmt.Errorf("a group cannot be called %s: {%s} is a part of the request",
				name, name)
		case slices.Contains(groups, name):
			return nil, nil, fmt.Errorf("two groups are called %s", name)
		}
		groups = append(groups, name)
	}
	return re, groups, nil
}

// Clip shortens a text for an error.
func Clip(s string) string {
	const enough = 60
	if len(s) > enough {
		return s[:enough] + "..."
	}
	return s
}
