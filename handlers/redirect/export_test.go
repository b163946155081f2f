package redirect

// Expand parses a template and expands it.
func Expand(to, host, path, below, query string) (string, error) {
	t, err := parseTemplate(to)
	if err != nil {
		return "", err
	}
	return t.expand(source{host: host, path: path, below: below, query: query}), nil
}
