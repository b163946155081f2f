package template

// Address parses an address and expands it; capture is what the group "c" of an expression has
// matched.
func Address(to, host, path, below, query, capture string) (string, error) {
	t, err := ParseAddress(to, []string{"c"})
	if err != nil {
		return "", err
	}
	return t.Expand(&Source{Host: host, Path: Part{Text: path}, Below: Part{Text: below}, Query: query,
		Captures: []Part{{Text: capture}}}), nil
}
