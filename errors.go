package lwango

import (
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// Errors of waits: of Await, Get, req.Sleep, of reads of the body and of writes. They may be
// wrapped, so programs compare by errors.Is.
var (
	// ErrDeadlineExceeded says that a limit has passed. To errors.Is it is os.ErrDeadlineExceeded and
	// context.DeadlineExceeded, too.
	ErrDeadlineExceeded = loop.ErrDeadlineExceeded

	// ErrNoWorker says that a function of Await has not begun within its limit, because all workers
	// were taken: the server is overloaded. It is an ErrDeadlineExceeded.
	ErrNoWorker = loop.ErrNoWorker

	// ErrClientGone says that the client has left, so hardly anyone reads the answer. To errors.Is it
	// is context.Canceled, too.
	ErrClientGone = loop.ErrClientGone

	// ErrCanceled says that a thread that the request has started was canceled. To errors.Is it is
	// context.Canceled, too.
	ErrCanceled = loop.ErrCanceled
)

// Errors of a request's body.
var (
	// ErrBodyTooLarge and ErrBodyTimeout say that the body is longer than its limit, or did not come
	// in time. Response.Error answers with 413 or 408, whatever its status. The latter is an
	// ErrDeadlineExceeded.
	ErrBodyTooLarge = conn.ErrBodyTooLarge
	ErrBodyTimeout  = conn.ErrBodyTimeout

	// ErrNoForm says that the body is no form of the type that MultipartForm or Parts expects.
	ErrNoForm = conn.ErrNoForm
)

type (
	// BindError says what is wrong with what a client has sent, to BindJSON, BindForm and BindQuery.
	// errors.As finds it. See conn.BindError.
	BindError = conn.BindError

	// PanicError is the error of a function or a thread that has panicked. See loop.PanicError.
	PanicError = loop.PanicError

	// StuckError is the error of Running.Wait when a handler blocks a loop. See loop.StuckError.
	StuckError = loop.StuckError
)
