package reverseproxy

import (
	"errors"
	"os"
	"time"

	"github.com/lwango/lwango/internal/upstream"
	"github.com/lwango/lwango/loop"
)

// crowdedRate is how many bytes a second a client has to take while its answer keeps a slot for
// which other requests wait.
const crowdedRate = 16 << 10

// CrowdedAfter is how long one of these must have waited. It is a variable only for the tests.
var CrowdedAfter = 3 * time.Second

// checkInterval is how often a flow checks for such requests.
const checkInterval = time.Second

// AwaitRoom is Await for a flow that is Full, without a limit. The upstream waits for the client,
// which may read so slowly that its slot is taken for hours. So while other requests wait for such
// a slot, the client must read faster than min_rate alone demands. AwaitRoom returns nil after a
// second at the latest.
func (f *Flow) AwaitRoom(up *upstream.Lease, read bool, sources ...loop.Source) error {
	f.moveAtOnce()
	if f.clientTook() {
		return nil
	}
	l := f.req.Thread.Loop()
	if now := l.Layer().Clock(l.Time()); f.checkedAt == 0 || now-f.checkedAt >= checkInterval {
		f.checkedAt = now
		f.setMinRate(up.CrowdedFor(f.req.Thread, CrowdedAfter))
	}
	err := f.duplex.Await(checkInterval, read, sources...)
	if err == loop.ErrDeadlineExceeded {
		return nil
	}
	return err
}

// setMinRate says whether the client has to take crowdedRate.
func (f *Flow) setMinRate(on bool) {
	switch {
	case on == f.rateLimited:
		return
	case on:
		f.duplex.SetMinRate(crowdedRate)
	default:
		f.duplex.SetMinRate(0)
	}
	f.rateLimited = on
}

// logCut is called when the client takes no more because of err. It logs the client if crowdedRate
// applied.
func (f *Flow) logCut(err error) {
	if f.rateLimited && errors.Is(err, os.ErrDeadlineExceeded) {
		f.log.Warn(
			"reverseproxy: a client is cut that reads too slowly while other requests wait for the"+
				" upstream", "request_id", f.req.ID(), "client", f.req.RemoteAddr().Addr(),
			"least_rate", crowdedRate)
	}
}
