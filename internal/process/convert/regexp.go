package convert

import (
	"errors"
	"fmt"
	"regexp"
	"regexp/syntax"
	"strings"
)

// expression returns an expression of PCRE as one of RE2, which the server has.
func expression(pattern string, insensitive bool) (string, error) {
	pattern, err := withoutLookahead(pattern)
	if err != nil {
		return "", err
	}
	if insensitive {
		pattern = "(?i)" + pattern
	}
	if _, err := regexp.Compile(pattern); err != nil {
		var e *syntax.Error
		if errors.As(err, &e) {
			return "", fmt.Errorf("RE2 has no such expression (%s: %s); write it in another way",
				e.Code, e.Expr)
		}
		return "", err
	}
	return pattern, nil
}

var lookahead = regexp.MustCompile(`^(.*)\(\?!(/?[A-Za-z0-9_-]+|/?\\\.[A-Za-z0-9_-]+)\)(\.\*\$?)?$`)

// withoutLookahead writes the common form /\.(?!well-known) without its condition, which RE2 does
// not have: "not followed by a word" is "followed by the end, or by something else than its first
// letter, or by that and something else than the second", and so on. What follows must be able to
// be anything, as it is matched by the same characters.
func withoutLookahead(pattern string) (string, error) {
	if !strings.Contains(pattern, "(?!") {
		return pattern, nil
	}
	m := lookahead.FindStringSubmatch(pattern)
	if m == nil || strings.Contains(m[1], "(?!") {
		return "", errors.New("RE2 has no (?!...); use a rule with `regexp` and `not`")
	}
	word := strings.ReplaceAll(m[2], `\`, "")
	other := ""
	for i := len(word) - 1; i >= 0; i-- {
		c := regexp.QuoteMeta(word[i : i+1])
		class := "[^" + strings.ReplaceAll(c, "-", `\-`) + "]"
		if other == "" {
			other = "(?:$|" + class + ")"
		} else {
			other = "(?:$|" + class + "|" + c + other + ")"
		}
	}
	return m[1] + other, nil
}

// maxTexts bounds the texts that an expression is written out to.
const maxTexts = 64

// literals returns all texts that an expression with ^ in front matches up to an end that texts
// returns as rest: "" for $, "/" for (/|$) and its kin, "*" if anything may follow. It is not ok if
// there are too many, or any number of them.
func literals(pattern string, insensitive bool) (texts []string, rest string, ok bool) {
	if insensitive {
		return nil, "", false
	}
	rest = "*"
	for _, end := range []struct{ text, rest string }{
		{`(?:$|/)`, "/"}, {`(?:/|$)`, "/"}, {`(/|$)`, "/"}, {`($|/)`, "/"}, {`(/.*)?$`, "/"},
		{`(/.+)?$`, "/"}, {`(?:/.*)?$`, "/"}, {`$`, ""},
	} {
		if before, found := strings.CutSuffix(pattern, end.text); found {
			pattern, rest = before, end.rest
			break
		}
	}
	body, found := strings.CutPrefix(pattern, "^")
	if !found {
		return nil, "", false
	}
	re, err := syntax.Parse(body, syntax.Perl)
	if err != nil {
		return nil, "", false
	}
	texts, ok = spell(re.Simplify())
	return texts, rest, ok && len(texts) > 0
}

// spell returns all texts of an expression without repetition.
func spell(re *syntax.Regexp) (texts []string, ok bool) {
	switch re.Op {
	case syntax.OpEmptyMatch:
		return []string{""}, true
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return nil, false
		}
		return []string{string(re.Rune)}, true
	case syntax.OpCapture:
		return spell(re.Sub[0])
	case syntax.OpQuest:
		texts, ok = spell(re.Sub[0])
		return append(texts, ""), ok
	case syntax.OpCharClass:
		for i := 0; i < len(re.Rune); i += 2 {
			for r := re.Rune[i]; r <= re.Rune[i+1]; r++ {
				if texts = append(texts, string(r)); len(texts) > maxTexts {
					return nil, false
				}
			}
		}
		return texts, true
	case syntax.OpAlternate:
		for _, sub := range re.Sub {
			more, ok := spell(sub)
			if texts = append(texts, more...); !ok || len(texts) > maxTexts {
				return nil, false
			}
		}
		return texts, true
	case syntax.OpConcat:
		texts = []string{""}
		for _, sub := range re.Sub {
			more, ok := spell(sub)
			if !ok || len(texts)*len(more) > maxTexts {
				return nil, false
			}
			var all []string
			for _, a := range texts {
				for _, b := range more {
					all = append(all, a+b)
				}
			}
			texts = all
		}
		return texts, true
	}
	return nil, false
}
