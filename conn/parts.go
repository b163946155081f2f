package conn

import (
	"io"
	"iter"
	"mime/multipart"

	"github.com/lwango/lwango/internal/invariants"
	"github.com/lwango/lwango/stream"
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
// for one that is malformed, or that of Body.Read, such as ErrBodyTooLarge. Reading a part returns
// Body.Read's errors too; then Parts yields the error next. The limit is that of the body,
// max_body_size or Body.SetLimit; the number of parts has none. Parts is called once for a request:
// what has passed is gone. If the handler has read from the body before, the error is ErrBodyRead.
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
			from := partsBody{r: r}
			defer from.release()
			parts := multipart.NewReader(&from, boundary)
			for {
				part, err := parts.NextPart()
				if err == io.EOF {
					return
				}
				if err != nil && from.err == nil {
					err = badInput("", "%s", err)
				}
				if !yield(part, err) || err != nil {
					return
				}
			}
		}
		yield(nil, ErrNoForm)
	}
}

// partsBody is the body for a multipart.Reader, which asks for 4 KiB at a time. It has a buffer of
// its own, so that it needs fewer calls of the kernel, but only while something is in it.
type partsBody struct {
	r    *Request
	buf  *[streamAt]byte
	rest []byte // of buf
	err  error
}

func (p *partsBody) Read(dst []byte) (int, error) {
	for len(p.rest) == 0 {
		p.release()
		b := &p.r.body
		if err := b.Await(); err != nil {
			if err != io.EOF {
				p.err = err
			}
			return 0, err
		}
		p.buf = buffers.Get().(*[streamAt]byte)
		n, err := b.readNow(p.buf[:])
		p.rest = p.buf[:n]
		if n == 0 && err != nil && err != stream.ErrWouldBlock && err != io.EOF {
			p.err = err
			return 0, err
		}
	}
	n := copy(dst, p.rest)
	p.rest = p.rest[n:]
	return n, nil
}

// release gives the buffer back.
func (p *partsBody) release() {
	if p.buf != nil {
		invariants.Mangle(p.buf[:])
		buffers.Put(p.buf)
		p.buf, p.rest = nil, nil
	}
}
