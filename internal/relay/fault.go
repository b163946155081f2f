package relay

import (
	"errors"
	"fmt"
	"log/slog"
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

// Untaken returns the status of a request whose body cannot be taken. If the client is at fault,
// conn replaces it by the one that says how. module is the name at the beginning of a line of the
// log.
func Untaken(req *conn.Request, log *slog.Logger, module string, err error) int {
	var path *os.PathError
	if errors.As(err, &path) && !errors.Is(err, conn.ErrSpoolFull) {
		log.Error(module+": request body cannot be held", "request_id", req.ID(), "error", err)
		return http.StatusInternalServerError
	}
	return http.StatusBadRequest
}

// Silent reports that the upstream has caused err: it has closed the connection, for which the
// error is cut, or no byte has moved there for too long.
func Silent(err, cut error) bool {
	return errors.Is(err, cut) || errors.Is(err, os.ErrDeadlineExceeded) && !errors.Is(err, errBody)
}

// Status returns the status for a client that has got no byte yet; 0: conn decides.
func Status(err error) int {
	switch {
	case upstream.Busy(err):
		return http.StatusServiceUnavailable
	case errors.Is(err, errBody):
		return 0
	case errors.Is(err, os.ErrDeadlineExceeded):
		return http.StatusGatewayTimeout
	}
	return http.StatusBadGateway
}
