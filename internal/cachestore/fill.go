package cachestore

import (
	"errors"
	"time"

	"github.com/lwango/lwango/loop"
)

// Errors of fills.
var (
	// ErrLength says that a body is not as long as its length said.
	ErrLength = errors.New("cachestore: the body has another length than declared")
	// ErrNotKept is the error of Commit for an answer that is whole, and is not kept: it is too long,
	// or there is no room, or it was purged while it came.
	ErrNotKept = errors.New("cachestore: the answer is not kept")
	// ErrUnread is the error of Write where the answer is not kept, and no reader is left.
	ErrUnread = errors.New("cachestore: nobody reads the answer")
)

// Begin begins to fill a key, or joins those who fill it. match says whether an answer's head is
// what the caller asks for: the right variant, and one that may be shared. A caller that finds an
// answer on its way that matches, or one whose head has not come yet, gets a Reader alone. Otherwise
// it gets a Fill as well, and has to fill it; its Reader reads what it fills. Each Reader is closed,
// and each Fill ends with Commit or Abort.
//
// If the head does not match after all, the caller closes its Reader and calls Begin again.
func (s *Store) Begin(key []byte, match func(*Head) bool) (*Reader, *Fill) { panic("soon") }

// Fill is an answer that comes. One goroutine or thread at a time calls its methods.
type Fill struct{}

// Start gives the answer's head. length is that of the body, -1 if it is not known. Readers wake up.
func (f *Fill) Start(h Head, length int64) { panic("soon") }

// Write adds to the body, and copies p. It waits where what is not kept would take too much memory:
// t waits until readers have read, or until the disk has written. A reader that holds up the others
// for longer than patience is cut off. The error is ErrUnread, ErrLength, or one of a wait; then the
// caller calls Abort.
func (f *Fill) Write(t *loop.Thread, p []byte, patience time.Duration) error { panic("soon") }

// Commit says that the answer is complete. It checks the length. Readers come to the end of the
// body. The object is what was kept; it is nil, and so is the error, where it is being written to
// disk still.
func (f *Fill) Commit() (*Object, error) { panic("soon") }

// Abort says that there will be no answer, or no more of it. Readers get err, for the head or the
// rest of the body; nothing is kept. For a caller that sees from the head that the answer must not
// be shared, err tells the readers so, and they ask for themselves, all at once.
func (f *Fill) Abort(err error) { panic("soon") }

// Keep says whether the answer is kept; it may become false, for good. The caller can say false
// itself: readers get what comes, and it is forgotten afterwards.
func (f *Fill) Keep(keep bool) bool { panic("soon") }

// Readers returns how many Readers there are, so that a fill can be given up that nobody reads.
func (f *Fill) Readers() int { panic("soon") }
