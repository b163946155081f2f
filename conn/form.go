package conn

import (
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"net/url"

	"github.com/lwango/lwango/internal/sysio"
	"github.com/lwango/lwango/loop"
)

// maxFormSize limits an urlencoded body, which is read into memory as a whole.
const maxFormSize = 10 << 20

// ErrNoForm is the error of MultipartForm for a body of another type.
var ErrNoForm = errors.New("request body is not a form of that type")

// Form returns the fields of an urlencoded body of at most 10 MiB (else ErrBodyTooLarge), followed
// by those of the query. If the body is of any other type, it returns those of the query alone. It
// reads the body once and keeps the result. If the handler has read it before, the error is
// ErrBodyRead.
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
// 256 KiB is taken apart off the loop, by one of the workers of Await.
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
	body, size, err := r.Spool(maxMemory)
	if err != nil {
		return nil, err
	}
	// If the body is in a file, the form's files can have as many bytes; otherwise there are none.
	file, _ := body.(*TempFile)
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
