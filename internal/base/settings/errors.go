package settings

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Error is one thing that is wrong in a file.
type Error struct {
	File string // the name given to Parse
	Line int    // from 1; 0 where no line can be blamed, as for a table that is missing
	Key  string // dotted name without indexes, such as "site.route.prefix"; empty for syntax errors
	Msg  string // what was expected, and what was found
}

// Error gives "file:line: key: message" without the parts that are unknown.
func (e *Error) Error() string {
	var b strings.Builder
	b.WriteString(e.File)
	if e.Line > 0 {
		fmt.Fprintf(&b, ":%d", e.Line)
	}
	b.WriteString(": ")
	if e.Key != "" {
		b.WriteString(e.Key)
		b.WriteString(": ")
	}
	b.WriteString(e.Msg)
	return b.String()
}

// located is an Error with its cause.
type located struct {
	at    *Error
	cause error
}

func (l *located) Error() string   { return l.at.Error() }
func (l *located) Unwrap() []error { return []error{l.at, l.cause} }

// Errors is everything that is wrong in a file, by line (and in those that it includes, by file);
// errors of the same line are in the order of their keys.
type Errors []*Error

// Error gives one line for each error.
func (es Errors) Error() string {
	lines := make([]string, len(es))
	for i, e := range es {
		lines[i] = e.Error()
	}
	return strings.Join(lines, "\n")
}

// Unwrap lets errors.As find an *Error.
func (es Errors) Unwrap() []error {
	errs := make([]error, len(es))
	for i, e := range es {
		errs[i] = e
	}
	return errs
}

// sorted returns the errors by file, in the order of names, by line and by key. Decoding walks
// maps, so without this the order would change from run to run. Equal reports are folded: a check
// that runs once per element may blame the same line twice.
func (es Errors) sorted(names []string) Errors {
	out := slices.Clone(es)
	slices.SortStableFunc(out, func(a, b *Error) int {
		return cmp.Or(
			slices.Index(names, a.File)-slices.Index(names, b.File),
			a.Line-b.Line,
			strings.Compare(a.Key, b.Key),
			strings.Compare(a.Msg, b.Msg))
	})
	return slices.CompactFunc(out, func(a, b *Error) bool { return *a == *b })
}
