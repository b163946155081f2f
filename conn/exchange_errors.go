package conn

import (
	"errors"
	"fmt"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
)

// Errors that a handler meets, besides those of waits, which package loop has.
var (
	// ErrBodyTooLarge and ErrBodyTimeout are errors of Body.Read, besides those of the connection. If
	// the head has not gone out when the handler returns, the error decides the status, 413, 408 or
	// 400, unless the handler answers with a status of 400 or above and a body of its own.
	ErrBodyTooLarge = errors.New("request body too large")
	ErrBodyTimeout  = fmt.Errorf("request body not sent in time: %w", loop.ErrDeadlineExceeded)

	// ErrBodyRead is the error of Parts, Form, MultipartForm, BindForm and BindJSON when the handler
	// has read the body before. That is the program's mistake: Response.Error makes a 500 of it.
	ErrBodyRead = errors.New("the handler has read the request body before")

	// ErrNoForm is the error of MultipartForm for a body of another type.
	ErrNoForm = errors.New("request body is not a form of that type")

	// ErrComplete is the error of writing to a Response that is complete, and of what waits or reads
	// for a request that is over.
	ErrComplete = errors.New("conn: response is complete")

	// ErrBodySet, ErrWroteTooMuch and ErrBadField are errors of Response's methods.
	ErrBodySet      = errors.New("conn: response body was set already")
	ErrWroteTooMuch = errors.New("conn: more written than the declared Content-Length")
	ErrBadField     = errors.New("conn: response header has a name or value that is not valid")

	// ErrNoDescriptor is in the error of what needs a descriptor for a request when its client's
	// requests hold as many as they may, or the process has few left. A moment later there may be
	// more.
	ErrNoDescriptor = errors.New("conn: the requests of the client hold too many descriptors")

	// ErrSpoolFull is in the error of RequestLayer.Spool, and of writing to a TempFile, when max_spool
	// or the disk of spool_dir has no room. If the head of the response has not gone out, the answer
	// to a body that was not spooled is a 503.
	ErrSpoolFull = sysio.ErrTempFull
)

// Errors of layers.
var (
	// ErrRewrites and ErrTarget are errors of RequestLayer.Rewrite.
	ErrRewrites = errors.New("conn: the request was rewritten 10 times")
	ErrTarget   = errors.New("conn: not a valid target for a rewritten request")

	// ErrNestedSubrequest is the error of a Subrequest that a subrequest's handler sends.
	ErrNestedSubrequest = errors.New("conn: a subrequest of a subrequest")
)
