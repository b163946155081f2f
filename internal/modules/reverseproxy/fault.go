package reverseproxy

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Errors of reads of the request's body wrap errBody.
var errBody = errors.New("the request's body cannot be read")

// BodyError wraps an error of a read of the request's body, which is not the upstream's fault.
func BodyError(err error) error {
	if err == stream.ErrWouldBlock || errors.Is(err, loop.ErrClientGone) {
		return err
	}
	return fmt.Errorf("%w: %w", errBody, err)
}

// refusal is an error of a protocol that has a status for the client.
type refusal interface {
	error
	ClientStatus() int
}

// reset passes on the reset of an upstream's stream of HTTP/2 to a client of gRPC. Its library
// reads the code, as that of a call which has taken too long or was canceled, where a page with 502
// says that the server is unavailable, so that the call is made again.
func (c *Call) reset(err error) bool {
	by, ok := errors.AsType[interface {
		error
		ResetCode() uint32
	}](err)
	if !ok {
		return false
	}
	kind, _ := c.Req.Layer().HeaderView("Content-Type")
	return ascii.HasPrefixFold(kind, "application/grpc") && c.Resp.Layer().ResetBy(by.ResetCode())
}

// statusOf returns the status for a client that has got no byte yet; 0: conn decides.
func statusOf(err error) int {
	if r, ok := errors.AsType[refusal](err); ok {
		return r.ClientStatus()
	}
	switch {
	case upstream.Busy(err), err == conn.ErrNoDescriptor:
		return http.StatusServiceUnavailable
	case errors.Is(err, errBody):
		return 0
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
