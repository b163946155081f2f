package loop

import (
	"context"
	"os"
)

// ErrDeadlineExceeded is the error of a wait whose limit has passed. For errors.Is it is an
// os.ErrDeadlineExceeded, as package net has it, and a context.DeadlineExceeded.
var ErrDeadlineExceeded error = deadlineExceeded{}

type deadlineExceeded struct{}

// Error implements error.
func (deadlineExceeded) Error() string { return os.ErrDeadlineExceeded.Error() }

// Is says which errors of the standard library it is.
func (deadlineExceeded) Is(err error) bool {
	return err == os.ErrDeadlineExceeded || err == context.DeadlineExceeded
}

// Timeout implements net.Error.
func (deadlineExceeded) Timeout() bool { return true }

// Temporary implements net.Error.
func (deadlineExceeded) Temporary() bool { return true }
