package rules

import (
	"bytes"
	"regexp"
	"regexp/syntax"
	"slices"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/template"
)

// expression is a regular expression with a filter before it, which allocates nothing and refuses
// most texts in a few nanoseconds. It does not change.
type expression struct {
	re     *regexp.Regexp
	groups []string // their names, from the first on; one without a name has its number
	filter filter
}

// parseExpression compiles an expression.
func parseExpression(text string) (*expression, error) {
	re, groups, err := template.Expression(text)
	if err != nil {
		return nil, err
	}
	x := &expression{re: re, groups: groups}
	if tree, err := syntax.Parse(text, syntax.Perl); err == nil {
		x.filter = newFilter(tree)
	}
	return x, nil
}

func (x *expression) match(b []byte) bool { return x.filter.pass(b) && x.re.Match(b) }

// captures returns beginning and end of what the groups have matched; one that has taken no part
// has matched nothing.
func (x *expression) captures(text []byte) [][2]int {
	all := make([][2]int, len(x.groups))
	found := x.re.FindSubmatchIndex(text)
	for i := range all {
		if at := 2 * (i + 1); at < len(found) && found[at] >= 0 {
			all[i] = [2]int{found[at], found[at+1]}
		}
	}
	return all
}

// filter is what every text that an expression matches has in common: its first octets are of some
// sets, and it has one of a few beginnings, one of a few ends, or one of a few texts somewhere in
// it. It lets all pass that the expression matches, and as little else as it can tell. An empty
// list tells nothing.
type filter struct {
	head              []octets
	begins, ends, has []word
}

// word is a literal text, in any case of letters if it is folded.
type word struct {
	text string
	fold bool
}

func (f *filter) pass(b []byte) bool {
	if len(b) < len(f.head) {
		return false
	}
	for i := range f.head {
		if !f.head[i].has(b[i]) {
			return false
		}
	}
	return (len(f.begins) == 0 || begin(f.begins, b) || folds(f.begins) && !isASCII(b)) &&
		(len(f.ends) == 0 || end(f.ends, b) || folds(f.ends) && !isASCII(b)) &&
		(len(f.has) == 0 || stand(f.has, b) || folds(f.has) && !isASCII(b))
}

// begin reports whether b begins with one of the words.
func begin(words []word, b []byte) bool {
	for i := range words {
		if w := &words[i]; len(b) >= len(w.text) && w.equal(b[:len(w.text)]) {
			return true
		}
	}
	return false
}

// end reports whether b ends with one of the words.
func end(words []word, b []byte) bool {
	for i := range words {
		if w := &words[i]; len(b) >= len(w.text) && w.equal(b[len(b)-len(w.text):]) {
			return true
		}
	}
	return false
}

// stand reports whether one of the words is in b.
func stand(words []word, b []byte) bool {
	for i := range words {
		if words[i].in(b) {
			return true
		}
	}
	return false
}

// equal compares b, which is as long as the word.
func (w *word) equal(b []byte) bool {
	n := len(b) - 1
	switch {
	case w.fold:
		return ascii.EqualFold(b, w.text)
	case n >= 0 && b[n] != w.text[n]: // most differ there
		return false
	}
	return string(b) == w.text
}

// in reports whether b has the word in it.
func (w *word) in(b []byte) bool {
	first := w.text[0]
	if w.fold && 'a' <= ascii.Lower(first) && ascii.Lower(first) <= 'z' {
		for i := 0; i+len(w.text) <= len(b); i++ {
			if ascii.EqualFold(b[i:i+len(w.text)], w.text) {
				return true
			}
		}
		return false
	}
	for len(b) >= len(w.text) {
		i := bytes.IndexByte(b[:len(b)-len(w.text)+1], first)
		if i < 0 {
			return false
		}
		if w.equal(b[i : i+len(w.text)]) {
			return true
		}
		b = b[i+1:]
	}
	return false
}

// folds reports whether a word is folded. In a text that is not ASCII, letters fold to others, as
// the Kelvin sign to "k", which only the expression knows.
func folds(words []word) bool {
	return slices.ContainsFunc(words, func(w word) bool { return w.fold })
}

func isASCII(b []byte) bool {
	for _, c := range b {
		if c >= 0x80 {
			return false
		}
	}
	return true
}

// maxWords is how many words a list of a filter has at most: comparing with more would cost as much
// as the expression.
const maxWords = 16

// newFilter finds the filter of an expression. Only a sequence at the top of the expression is
// looked at: what it is made of must all be there, one after the other.
func newFilter(tree *syntax.Regexp) filter {
	parts := flatten(tree.Simplify(), nil)
	var f filter
	var best []word
	for i := 0; i < len(parts); {
		words, n := run(parts[i:])
		if n == 0 {
			i++
			continue
		}
		if shortest(words) > 0 {
			switch {
			case i > 0 && parts[i-1].Op == syntax.OpBeginText:
				f.begins = words
			case i+n < len(parts) && parts[i+n].Op == syntax.OpEndText:
				f.ends = words
			case shortest(words) > shortest(best):
				best = words
			}
		}
		i += n
	}
	if f.begins == nil && f.ends == nil || shortest(best) > 2 {
		f.has = best
	}
	f.head = headOf(parts)
	if len(f.begins) == 1 && len(f.begins[0].text) <= len(f.head) {
		f.begins = nil // the head has it
	}
	return f
}

// flatten makes one sequence of nested ones.
func flatten(re *syntax.Regexp, parts []*syntax.Regexp) []*syntax.Regexp {
	switch re.Op {
	case syntax.OpConcat:
		for _, sub := range re.Sub {
			parts = flatten(sub, parts)
		}
		return parts
	case syntax.OpCapture:
		if re.Sub[0].Op == syntax.OpConcat {
			return flatten(re.Sub[0], parts)
		}
	}
	return append(parts, re)
}

// run returns the words that the first n parts stand for together; n is 0 if the first stands for
// more than a few.
func run(parts []*syntax.Regexp) (words []word, n int) {
	for ; n < len(parts); n++ {
		next := exact(parts[n])
		if next == nil || len(words)*len(next) > maxWords {
			break
		}
		words = product(words, next)
	}
	return words, n
}

func product(a, b []word) []word {
	if a == nil {
		return b
	}
	var all []word
	for _, x := range a {
		for _, y := range b {
			all = append(all, word{x.text + y.text, x.fold || y.fold})
		}
	}
	return all
}

// exact returns all words that an expression stands for, nil if these are too many, or not known.
func exact(re *syntax.Regexp) []word {
	switch re.Op {
	case syntax.OpLiteral:
		fold := re.Flags&syntax.FoldCase != 0
		if slices.ContainsFunc(re.Rune, func(r rune) bool { return r == 0xfffd || fold && r >= 0x80 }) {
			return nil // U+FFFD stands for what is not UTF-8, too
		}
		return []word{{string(re.Rune), fold}}
	case syntax.OpCapture:
		return exact(re.Sub[0])
	case syntax.OpEmptyMatch:
		return []word{{}}
	case syntax.OpCharClass:
		var all []word
		for i := 0; i < len(re.Rune); i += 2 {
			if int(re.Rune[i+1]-re.Rune[i])+1 > maxWords-len(all) {
				return nil
			}
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if r == 0xfffd {
					return nil
				}
				all = append(all, word{text: string(r)})
			}
		}
		return all
	case syntax.OpQuest:
		if sub := exact(re.Sub[0]); sub != nil && len(sub) < maxWords {
			return append(slices.Clone(sub), word{})
		}
	case syntax.OpConcat:
		words, n := run(re.Sub)
		if n == len(re.Sub) {
			return words
		}
	case syntax.OpAlternate:
		var all []word
		for _, sub := range re.Sub {
			words := exact(sub)
			if words == nil || len(all)+len(words) > maxWords {
				return nil
			}
			all = append(all, words...)
		}
		return all
	}
	return nil
}

func shortest(words []word) int {
	n := 0
	for i, w := range words {
		if i == 0 || len(w.text) < n {
			n = len(w.text)
		}
	}
	return n
}

// String returns the expression as it was written.
func (x *expression) String() string { return x.re.String() }
