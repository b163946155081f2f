package conn

import (
	"context"
	"errors"
	"io"
	"iter"
	"mime"
	"mime/multipart"
	"net/url"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
)

// maxFormSize limits an urlencoded body, which is read into memory as a whole.
const maxFormSize = 10 << 20

// Form returns the fields of an urlencoded body of at most 10 MiB (else ErrBodyTooLarge), followed
// by those of the query. If the body is of any other type, it returns the parameters of the query
// alone. It reads the body once and keeps the result. If the handler has read it before, the error
// is ErrBodyRead.
func (r *Request) Form() (url.Values, error) {
	if r.over() {
		return nil, ErrComplete
	}
	if r.form != nil {
		return r.form, nil
	}
	form := make(url.Values)
	if kind, _ := r.mediaType(); kind == "application/x-www-form-urlencoded" {
		if err := r.body.taken(); err != nil {
			return nil, err
		}
		text, err := io.ReadAll(io.LimitReader(&r.body, maxFormSize+1))
		if err != nil {
			return nil, err
		}
		if len(text) > maxFormSize {
			_ = r.body.failed(ErrBodyTooLarge)
			return nil, ErrBodyTooLarge
		}
		if form, err = url.ParseQuery(string(text)); err != nil {
			return nil, err
		}
	}
	for name, values := range r.Query() {
		form[name] = append(form[name], values...)
	}
	r.form = form
	return form, nil
}

// MultipartForm reads a multipart/form-data body. Up to maxMemory bytes of it stay in memory; files
// beyond that go to temporary files, which are removed when the request ends. Package
// mime/multipart makes them in os.TempDir, wherever spool_dir is. A body that does not fit in
// memory counts twice for max_spool, once as it came and once taken apart. The error is ErrNoForm
// for a body of another type, ErrBodyRead, ErrSpoolFull, or that of reading. A body of more than
// 256 KiB is taken apart off the loop, by one of the workers of Await. Package mime/multipart takes
// 1,000 parts with 10,000 fields in their heads at most, and 10 MiB beyond maxMemory for what are
// no files: else the error is multipart.ErrMessageTooLarge. Parts has no such limits.
func (r *Request) MultipartForm(maxMemory int64) (*multipart.Form, error) {
	if r.multipart != nil {
		return r.multipart, nil
	}
	kind, params := r.mediaType()
	if kind != "multipart/form-data" || params["boundary"] == "" {
		return nil, ErrNoForm
	}
	if err := r.body.taken(); err != nil {
		return nil, err
	}
	// ReadForm must not wait for the client: if the thread were killed then, ReadForm's files would
	// be left behind.
	body, size, err := r.Layer().Spool(maxMemory)
	if err != nil {
		return nil, err
	}
	// If the body is in a file, the form's files can have as many bytes; otherwise there are none.
	file, _ := body.(*sysio.TempFile)
	form, space := new(loop.Promise[*multipart.Form]), &r.x.c.port.server.temp
	release := func() {
		if file != nil {
			space.Release(file, size)
		}
	}
	remove := func(read *multipart.Form) error {
		defer release()
		return read.RemoveAll()
	}
	r.Defer(func() {
		if !form.Reject(loop.ErrCanceled) {
			read, _ := form.Value()
			_ = remove(read)
		}
	})
	read := func() error {
		if file != nil {
			if err := space.Reserve(file, size); err != nil {
				return err
			}
		}
		read, err := multipart.NewReader(body, params["boundary"]).ReadForm(maxMemory)
		if err != nil { // no file is left
			release()
			return sysio.TempFull(err)
		}
		if !form.Resolve(read) { // the request has ended meanwhile
			return remove(read)
		}
		return nil
	}
	if size <= turnBudget {
		err = read()
	} else {
		// The body is complete: a client that has sent FIN gets its answer.
		was := r.KeepWaiting(true)
		err = r.Await(-1, func(context.Context) error { return read() })
		r.KeepWaiting(was)
	}
	if errors.Is(err, ErrSpoolFull) {
		r.noSpool(err)
	}
	if err != nil {
		return nil, err
	}
	r.multipart, err = form.Value()
	return r.multipart, err
}

func (r *Request) mediaType() (string, map[string]string) {
	kind, params, err := mime.ParseMediaType(r.Header().Get("Content-Type"))
	if err != nil {
		return "", nil
	}
	return kind, params
}

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
// yields the error next. The limit is the body's, max_body_size or Body.SetLimit; the number
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
