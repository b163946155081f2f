package wire

// Names for AppendGetValues. PHP-FPM answers the last one alone, with "0".
const (
	MaxConns  = "FCGI_MAX_CONNS"
	MaxReqs   = "FCGI_MAX_REQS"
	MPXSConns = "FCGI_MPXS_CONNS"
)

// AppendGetValues appends GET_VALUES. The answer, GET_VALUES_RESULT, holds pairs for ParsePair, for such of the
// names as the application knows.
func AppendGetValues(dst []byte, names ...string) []byte {
	n := 0
	for _, name := range names {
		n += PairLen(len(name), 0)
	}
	dst = AppendHeader(dst, GetValues, n)
	for _, name := range names {
		dst = AppendPair(dst, name, "")
	}
	return dst
}

// ParseUnknownType reads the content of an UNKNOWN_TYPE: the type of management record that the application did not
// know.
func ParseUnknownType(content []byte) (Type, error) {
	if len(content) != 8 {
		return 0, ErrUnknown
	}
	return Type(content[0]), nil
}
