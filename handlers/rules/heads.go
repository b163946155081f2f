package rules

import "regexp/syntax"

// maxHead is how many octets of the beginning of a text a filter looks at one by one.
const maxHead = 8

// octets is a set of octets of ASCII.
type octets [2]uint64

func (s *octets) add(c rune) { s[c>>6] |= 1 << (c & 63) }

func (s *octets) has(c byte) bool { return c < 0x80 && s[c>>6]>>(c&63)&1 != 0 }

// headOf returns the sets of which the first octets of each text are that a sequence matches, as
// far as these are known. So it tells "/en/" from most other beginnings, where an expression has
// "^/[a-z][a-z]/": all words of that would be too many.
func headOf(parts []*syntax.Regexp) (head []octets) {
	if len(parts) == 0 || parts[0].Op != syntax.OpBeginText {
		return nil
	}
	for _, p := range parts[1:] {
		more := false
		if head, more = extend(head, p); !more {
			break
		}
	}
	return head[:min(len(head), maxHead)]
}

// extend adds the octets of one part of the sequence. more reports whether those of the next part
// follow in all texts.
func extend(head []octets, part *syntax.Regexp) (_ []octets, more bool) {
	switch part.Op {
	case syntax.OpCapture:
		return extend(head, part.Sub[0])
	case syntax.OpPlus:
		head, _ = extend(head, part.Sub[0])
		return head, false
	case syntax.OpLiteral:
		for _, r := range part.Rune {
			if r >= 0x80 || part.Flags&syntax.FoldCase != 0 {
				return head, false
			}
			var s octets
			s.add(r)
			head = append(head, s)
		}
		return head, true
	case syntax.OpCharClass:
		var s octets
		for i := 0; i < len(part.Rune); i += 2 {
			if part.Rune[i+1] >= 0x80 {
				return head, false
			}
			for r := part.Rune[i]; r <= part.Rune[i+1]; r++ {
				s.add(r)
			}
		}
		return append(head, s), true
	}
	return head, false
}
