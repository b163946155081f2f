package rfc9111

// EachDirective is directives, for the tests.
func EachDirective(value string, f func(name, argument string, bare bool)) bool {
	return directives(value, f)
}
