package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/textproto"
	"net/url"
	"strconv"
	"time"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/goroutine"
	"github.com/lwango/lwango/loop"
)

// Transport is an http.RoundTripper for libraries that take an http.Client and that a handler calls
// on its thread, such as the SDK of a service. It sends by a Client, and the thread waits without
// holding its loop. A program has one for all of its handlers. Any goroutine may call RoundTrip.
//
//	var sdk = service.New(&http.Client{Transport: &client.Transport{}})
//
//	func pay(req *lwango.Request, resp *lwango.Response) int {
//		charge, err := sdk.Charge(client.OnThread(req.Context(), req.Thread), 700)
//
// The thread is that of OnThread, in the context of each request. The library must call RoundTrip,
// and read the answer's body, on the same goroutine, and must not block itself: reading what the
// request's Body has must not wait for another goroutine.
//
// What http.Transport does besides is left out: proxies, compression, request trailers, Upgrade,
// and Response.TLS. "Expect: 100-continue" is dropped: the body is sent until the answer has come.
type Transport struct {
	// Client has the connections; nil: the one of Get and Do.
	Client *Client

	// Limit is for the whole exchange, including reads of the body; 0 or less: the context's end is
	// the only one.
	Limit time.Duration

	// Elsewhere sends the requests that do not come from the goroutine of OnThread, such as those of a
	// function of Await, or of the program's start; nil: they fail with ErrNotOnThread.
	Elsewhere http.RoundTripper
}

// ErrNotOnThread is the error of a Transport that is used on another goroutine than its thread's,
// or with a context that has no thread.
var ErrNotOnThread = errors.New("client: the request does not come from the thread of its " +
	"context: a handler passes on OnThread(req.Context(), req.Thread), and off the loop, as in " +
	"Await, http.DefaultTransport works, which may be the Transport's Elsewhere")

// OnThread returns a context for the requests that t sends by a Transport. t calls it.
func OnThread(ctx context.Context, t *loop.Thread) context.Context {
	return context.WithValue(ctx, callerKey{}, &caller{t, goroutine.ID()})
}

type callerKey struct{}

// caller is a thread and the goroutine on which it runs.
type caller struct {
	thread *loop.Thread
	id     uint64
}

// calls reports whether the calling goroutine is c's.
func (c *caller) calls() bool { return c != nil && c.id == goroutine.ID() }

// maxBuffered is how many bytes of a body are read before the request is sent. Then it can be sent
// again if an idle connection has ended.
const maxBuffered = 32 << 10

// RoundTrip implements http.RoundTripper.
func (tr *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	by, _ := r.Context().Value(callerKey{}).(*caller)
	if !by.calls() {
		if tr.Elsewhere != nil {
			return tr.Elsewhere.RoundTrip(r)
		}
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, ErrNotOnThread
	}
	if r.Body != nil {
		defer r.Body.Close()
	}
	ask, err := requestOf(r)
	if err != nil {
		return nil, err
	}
	body := &stdBody{caller: by, ctx: r.Context()}
	limit := cmp.Or(tr.Limit, -1)
	c := cmp.Or(tr.Client, &standard)
	var answer *Response
	if err := body.bound(func() error {
		answer, err = c.Do(by.thread, limit, ask)
		return err
	}); err != nil {
		return nil, err
	}
	body.answer, body.std = answer, responseOf(answer)
	body.std.Body, body.std.Request = body, r
	return body.std, nil
}

// responseOf makes the answer one of net/http, but for its Body and Request.
func responseOf(answer *Response) *http.Response {
	std := &http.Response{StatusCode: answer.Status, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Status: strconv.Itoa(answer.Status) + " " + http.StatusText(answer.Status),
		Header: make(http.Header), ContentLength: -1}
	if answer.multiplexed {
		std.Proto, std.ProtoMajor, std.ProtoMinor = "HTTP/2.0", 2, 0
	}
	for name, value := range answer.Header.All() {
		std.Header.Add(name, value)
	}
	if n, err := strconv.ParseInt(std.Header.Get("Content-Length"), 10, 64); err == nil {
		std.ContentLength = n
	} else if s := answer.Status; s == http.StatusNoContent || s == http.StatusNotModified {
		std.ContentLength = 0
	}
	if std.TransferEncoding = std.Header["Transfer-Encoding"]; std.TransferEncoding != nil {
		delete(std.Header, "Transfer-Encoding")
	}
	for _, list := range std.Header["Trailer"] {
		ascii.EachElement(list, func(name string) bool {
			if std.Trailer == nil {
				std.Trailer = make(http.Header)
			}
			std.Trailer[textproto.CanonicalMIMEHeaderKey(name)] = nil
			return true
		})
	}
	delete(std.Header, "Trailer")
	return std
}

// requestOf makes the Client's request of one of net/http.
func requestOf(r *http.Request) (*Request, error) {
	switch {
	case r.URL == nil, r.URL.Opaque != "":
		return nil, errors.New("client: Transport: expected a URL with a host and a path")
	case len(r.Trailer) > 0:
		return nil, fmt.Errorf("client: Transport: trailers of a request: %w", http.ErrNotSupported)
	case r.Header.Get("Upgrade") != "":
		return nil, fmt.Errorf("client: Transport: Upgrade: %w", http.ErrNotSupported)
	}
	u := url.URL{Scheme: r.URL.Scheme, Host: r.URL.Host, Path: r.URL.Path, RawPath: r.URL.RawPath,
		RawQuery: r.URL.RawQuery, ForceQuery: r.URL.ForceQuery}
	ask := &Request{Method: r.Method, URL: u.String(), MaxBody: -1}
	if r.Host != r.URL.Host {
		ask.host = r.Host
	}
	for name, values := range r.Header {
		switch name {
		case "Host", "Connection", "Content-Length", "Transfer-Encoding", "Expect":
			continue // which the Client decides
		}
		for _, value := range values {
			ask.Header.Add(name, value)
		}
	}
	switch {
	case r.Body == nil || r.Body == http.NoBody:
	case r.ContentLength > 0 && r.ContentLength <= maxBuffered:
		ask.Body = make([]byte, r.ContentLength)
		if _, err := io.ReadFull(r.Body, ask.Body); err != nil {
			return nil, fmt.Errorf("body of the request: %w", err)
		}
	default:
		ask.From, ask.Length = r.Body, r.ContentLength
	}
	return ask, nil
}

// stdBody is the body of an answer for net/http.
type stdBody struct {
	*caller
	ctx    context.Context // of the request
	answer *Response
	std    *http.Response
	ended  bool // std has the trailer
}

// bound calls f. The end of the request's context ends its waits, and is its error then.
func (b *stdBody) bound(f func() error) error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	if b.ctx.Done() != nil {
		defer b.thread.Layer().Bind(b.ctx).Release()
	}
	err := f()
	if err != nil && err != io.EOF && b.ctx.Err() != nil {
		return b.ctx.Err()
	}
	return err
}

// Read implements io.Reader.
func (b *stdBody) Read(p []byte) (n int, err error) {
	if !b.calls() {
		return 0, ErrNotOnThread
	}
	err = b.bound(func() (err error) {
		n, err = b.answer.Body.Read(p)
		return err
	})
	if err == io.EOF && !b.ended {
		b.ended = true
		for name, value := range b.answer.Trailer.All() {
			if b.std.Trailer == nil {
				b.std.Trailer = make(http.Header)
			}
			b.std.Trailer.Add(name, value)
		}
	}
	return n, err
}

// Close implements io.Closer.
func (b *stdBody) Close() error {
	if !b.calls() {
		return ErrNotOnThread
	}
	return b.answer.Body.Close()
}
