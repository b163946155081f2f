package loop

import (
	"context"
	"errors"
	"fmt"
)

// Why a wait, or a function, has returned early.
var (
	// ErrDeadlineExceeded is the error of a wait whose limit has passed. For errors.Is it is an
	// os.ErrDeadlineExceeded, as package net has it, and a context.DeadlineExceeded.
	ErrDeadlineExceeded error = deadlineExceeded{}

	// ErrClientGone is the error of a wait of a thread whose peer has closed or reset the connection.
	// For errors.Is it is a context.Canceled, as code of net/http knows a client that has left.
	ErrClientGone error = clientGone{}

	// ErrCanceled is the error of a wait of a thread whose scope was canceled. It is a
	// context.Canceled.
	ErrCanceled = fmt.Errorf("thread canceled: %w", context.Canceled)

	// ErrBudget is the error of a wait for which Within has left no time. For errors.Is it is an
	// ErrDeadlineExceeded, and what that is.
	ErrBudget error = budgetSpent{}

	// ErrNoWorker is the error of an Await that came to its limit while all workers of the loop were
	// busy, so that the function never runs. It is an ErrDeadlineExceeded, too.
	ErrNoWorker = fmt.Errorf("no worker was free: %w", ErrDeadlineExceeded)

	// ErrAwaited is the error of a wait for a descriptor that a thread of the same loop waits for
	// already, or that is a thread's own, for which there is WantRead. A loop does not know what other
	// loops wait for: if two loops await one descriptor, both get its events.
	ErrAwaited = errors.New("descriptor is awaited already")

	// ErrPending is the error of a promise that is not settled yet.
	ErrPending = errors.New("promise is pending")

	// ErrExited is the error of a function that has called runtime.Goexit instead of returning.
	ErrExited = errors.New("goroutine ended by runtime.Goexit")

	// ErrNoConnection is the error of Accept when no connection waits.
	ErrNoConnection = errors.New("no connection waits")
)
