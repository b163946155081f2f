// Package httptest has the names of net/http/httptest. Servers are lwango's here, and what a test
// asks of a handler by way of Serve goes to one through a socket. The suites of other projects,
// which the tests of this module rewrite, import it in the place of the standard package.
//
//	httptest.go  the recorder, and the names that are the standard package's
//	server.go    Server: lwango in the place of net/http
//	serve.go     Serve: a handler is called through a socket
//	writer.go    Writer: a ResponseWriter for tests that call no handler
//	log.go       which way the requests of each test took
package httptest

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
)

// DefaultRemoteAddr is the standard package's.
const DefaultRemoteAddr = httptest.DefaultRemoteAddr

// ResponseRecorder is the standard one.
type ResponseRecorder = httptest.ResponseRecorder

// NewRecorder makes one.
func NewRecorder() *ResponseRecorder { return httptest.NewRecorder() }

// NewRequest makes a request as a server gets it.
func NewRequest(method, target string, body io.Reader) *http.Request {
	return httptest.NewRequest(method, target, body)
}

// NewRequestWithContext makes one with a context.
func NewRequestWithContext(ctx context.Context, method, target string,
	body io.Reader) *http.Request {
	return httptest.NewRequestWithContext(ctx, method, target, body)
}
