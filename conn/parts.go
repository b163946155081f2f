package conn

import (
	"io"
	"iter"
	"mime/multipart"
)

// Parts yields the parts of a multipart body, of any kind such as multipart/form-data, as they
// arrive, and keeps nothing of them: a part is read, like a file, while it is the present one, and
// what was not read of it is skipped. Reading waits for the client. Part.FormName, FileName and
// Header tell what it is; the header of a part may have 10 MiB.
//
//	for part, err := range req.Parts() {
//		if err != nil {
//			return resp.Error(400, err)
//		}
//		n, err := io.Copy(file, part)
//	}
//
// An error is the last thing that is yielded: ErrNoForm for a body of another type, a *BindError
// for one that is malformed, or that of Body.Read, such as ErrBodyTooLarge. Reading a part fails
// for the same reasons, or since what is decoded of it, quoted-printable, is malformed; then Parts
// yields the error next. The limit is that of the body, max_body_size or Body.SetLimit; the number
// of parts has none. Parts is called once for a request: what has passed is gone. If the handler
// has read from the body before, the error is ErrBodyRead.
//
// While a part waits for the client, it has 4 KiB of buffer.
func (r *Request) Parts() iter.Seq2[*multipart.Part, error] {
	return func(yield func(*multipart.Part, error) bool) {
		kind, params := r.mediaType()
		if boundary := params["boundary"]; len(kind) > 10 && kind[:10] == "multipart/" && boundary != "" {
			if err := r.body.taken(); err != nil {
				yield(nil, err)
				return
			}
			from := partsBody{body: &r.body}
			parts := multipart.NewReader(&from, boundary)
			for {
				part, err := parts.NextPart()
				if err == io.EOF {
					return
				}
				if err == nil {
					if !yield(part, nil) {
						return
					}
					// NextPart would skip the rest of a part, too, but behind what cannot be decoded
					// it would find the next one only if that has come already.
					_, err = io.Copy(io.Discard, part)
				}
				if err != nil {
					if from.err != nil {
						err = from.err
					} else {
						err = badInput("", "%s", err)
					}
					yield(nil, err)
					return
				}
			}
		}
		yield(nil, ErrNoForm)
	}
}

// partsBody is the body for a multipart.Reader, which asks for 4 KiB at a time. It reads no further
// than that: an error of the body that lies ahead would become the answer of a handler which does
// not want to come there.
type partsBody struct {
	body *Body
	err  error // of body
}

func (p *partsBody) Read(dst []byte) (int, error) {
	n, err := p.body.Read(dst)
	if err != io.EOF {
		p.err = err
	}
	return n, err
}
