package reverseproxy

import (
	"errors"
	"os"
	"time"

	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// pressRate is how many bytes a second a client has to take while its answer holds up the upstream
// for which other requests wait.
const pressRate = 16 << 10

// PressAfter is for how long one of these must have waited. It is a variable only for the tests.
var PressAfter = 3 * time.Second

// checkEvery is how often a flow checks for them.
const checkEvery = time.Second

// AwaitRoom is Await for a flow that is Full, without a limit. The upstream waits for the client,
// which may read so slowly that its slot is taken for hours. So while other requests wait for such
// a slot, the client must read faster than min_rate alone demands. AwaitRoom returns nil after a
// second at the latest.
func (f *Flow) AwaitRoom(up *upstream.Lease, read bool, sources ...loop.Source) error {
	f.moveAtOnce()
	if f.taken() {
		return nil
	}
	l := f.req.Thread.Loop()
	if now := l.Clock(l.Time()); f.checkedAt == 0 || now-f.checkedAt >= checkEvery {
		f.checkedAt = now
		f.press(up.CrowdedFor(f.req.Thread, PressAfter))
	}
	err := f.duplex.Await(checkEvery, read, sources...)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	return err
}

// press says whether the client has to take pressRate.
func (f *Flow) press(on bool) {
	switch {
	case on == f.pressed:
		return
	case on:
		f.duplex.SetMinRate(pressRate)
	default:
		f.duplex.SetMinRate(0)
	}
	f.pressed = on
}

// cut is called when the client takes no more because of err, and logs it if it was pressed.
func (f *Flow) cut(err error) {
	if f.pressed && errors.Is(err, os.ErrDeadlineExceeded) {
		f.log.Warn(
			"reverseproxy: a client is cut that reads too slowly while other requests wait for the"+
				" upstream", "request_id", f.req.ID(), "client", f.req.RemoteAddr().Addr(),
			"least_rate", pressRate)
	}
}
