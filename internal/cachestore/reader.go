package cachestore

import (
	"time"

	"github.com/lwango/lwango/loop"
)

// Reader reads an answer while it comes. It belongs to one thread at a time. It is an io.Reader for
// SetBodyReader, and a loop.Source: ready when Read has something or when the head has come.
type Reader struct{}

// Head waits for the head, for d at most, or without limit if d is negative. The error is that of
// Abort, or one of AwaitAny's.
func (r *Reader) Head(t *loop.Thread, d time.Duration) (*Head, error) { panic("soon") }

// Length is that of the body in bytes, as declared; -1: unknown.
func (r *Reader) Length() int64 { panic("soon") }

// Bind says which thread reads, and how long a Read waits at most for more; negative: no limit.
func (r *Reader) Bind(t *loop.Thread, d time.Duration) { panic("soon") }

// Read implements io.Reader. It waits for more to come. The error is io.EOF once the answer is
// complete, or that of Abort, or one of AwaitAny's.
func (r *Reader) Read(p []byte) (int, error) { panic("soon") }

// Object waits until the answer is kept or is not, for d at most, and returns the object: for a
// request that needs all of it, such as one for ranges. The error is that of Abort or of Commit, or
// one of AwaitAny's.
func (r *Reader) Object(t *loop.Thread, d time.Duration) (*Object, error) { panic("soon") }

// Close leaves the answer. It may be called twice.
func (r *Reader) Close() error { panic("soon") }

// Watch implements loop.Source.
func (r *Reader) Watch(t *loop.Thread) error { panic("soon") }

// Ready implements loop.Source.
func (r *Reader) Ready() bool { panic("soon") }

// Unwatch implements loop.Source.
func (r *Reader) Unwatch(t *loop.Thread) { panic("soon") }
