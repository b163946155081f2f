package relay

import (
	"errors"
	"fmt"
	"net/http"
	"os"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// errBody is in errors of reading the request's body.
var errBody = errors.New("the request's body cannot be read")

// BodyError marks an error of reading the request's body, which is not the upstream's.
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
