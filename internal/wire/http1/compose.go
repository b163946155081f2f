package http1

// A head can also come in parts: Begin, Add for each field, and End take what Parse takes from
// text. It is that of HTTP/1.1 then: it may lack a Host field, if the authority is known.

// Begin makes h, after Reset, the head of a request with that method, target and authority, which
// are parts of buf. An empty authority is none.
func (h *Head) Begin(buf []byte, method, target, authority Span) *Error {
	name := method.Of(buf)
	if n := tokenLen(name); n == 0 || n != len(name) {
		return ErrMethodSyntax
	}
	h.Name, h.Method, h.Minor, h.stage = method, parseMethod(name), 1, complete
	if h.Method == 0 {
		return ErrMethod
	}
	if authority.Len() > 0 {
		h.seen |= hostSeen
		if hostLen, _, ok := parseAuthority(authority.Of(buf)); !ok || hostLen == 0 {
			return ErrHost
		}
		h.Host = authority
	}
	text := target.Of(buf)
	if len(text) == 0 || targetLen(text) != len(text) {
		return ErrTarget
	}
	if h.Method != CONNECT && text[0] != '/' && string(text) != "*" {
		return ErrTargetForm
	}
	return h.target(buf, int(target.Start), int(target.End))
}

// CheckField returns the error of a field (RFC 9110 sections 5.1 and 5.5), or nil.
func CheckField(name, value []byte) *Error {
	switch {
	case !ValidToken(name):
		return ErrFieldName
	case !ValidFieldValue(value):
		return ErrFieldValue
	}
	return nil
}

// End checks what only the whole head shows. size is the length of the message that the head came
// in; body says that content may follow.
func (h *Head) End(size int, body bool) *Error {
	h.line = size
	switch {
	case !body && h.ContentLength < 0:
	case h.ContentLength < 0:
		h.Chunked = true // only the end of the content tells how long it is
	}
	return h.finish()
}
