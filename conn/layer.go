package conn

import "github.com/lwango/lwango/internal/http1"

// Span is the part [Start, End) of some bytes.
type Span = http1.Span

// RequestLayer is a Request with what the layers between the server and a handler do besides: they
// route it, rewrite it, name its user, or read its fields without a copy. It is valid as long as
// the Request, and belongs to the same thread.
type RequestLayer struct{ *Request }

// Layer returns what a layer, or a module of the configuration, may do with the request.
func (r *Request) Layer() RequestLayer { return RequestLayer{r} }

// ResponseLayer is a Response with what the layers between the server and a handler do besides:
// they change the head before it is sent, encode the body, or answer instead of a handler. It is
// valid as long as the Response, and belongs to the same thread.
type ResponseLayer struct{ *Response }

// Layer returns what a layer, or a module of the configuration, may do with the response.
func (w *Response) Layer() ResponseLayer { return ResponseLayer{w} }
