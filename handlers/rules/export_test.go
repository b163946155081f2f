package rules

// Value reports whether a pattern for values matches a value.
func Value(pattern string, value []byte) (bool, error) {
	p, err := parsePattern(pattern)
	if err != nil {
		return false, err
	}
	return p.match(value), nil
}

// Filtered reports what the filter of an expression says of a text, and what the expression says.
func Filtered(text string, b []byte) (passes, matches bool, err error) {
	x, err := parseExpression(text)
	if err != nil {
		return false, false, err
	}
	return x.filter.pass(b), x.re.Match(b), nil
}

// Holds returns how many rules are for a request.
func (s *Set) Holds(q Asked) (n int) {
	for i := range s.rules {
		if c, _ := s.rules[i].fails(q); c == nil {
			n++
		}
	}
	return n
}
