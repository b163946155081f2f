package rfc9111

// Keeps reports whether a field of the answer is kept with it (RFC 9111 section 3.1). Those of one
// connection are not, those that private, no-cache or Connection name, and those that the server
// makes anew for each answer: Content-Length, Age, Cache-Status and the framing. Set-Cookie is left
// to Rules.
func (r *Response) Keeps(name string) bool { panic("soon") }

// Updates reports whether a field of r, which is a 304, replaces that of the kept answer (section
// 3.2). Those that describe the content stay as they are: the content does.
func (r *Response) Updates(name string) bool { panic("soon") }

// Validates reports whether a 304 is about the kept answer with these validators (section 4.3.4):
// a strong tag is the same, or else a weak one, or the date. etag and lastModified are the values of
// the kept answer's fields, "" if there are none.
func (r *Response) Validates(etag, lastModified string) bool { panic("soon") }
