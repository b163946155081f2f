package reverseproxy

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// Errors of a Flow wrap ErrClient if the client takes no more.
var ErrClient = errors.New("the client takes no more")

// ReadReadAtOnce is how many bytes a module receives before it serves the other direction, and
// writes held bytes to the client. Without that bound an upstream that is always ahead would fill
// the spool while its client waits, and would not get the rest of the request.
const ReadAtOnce = 8 * loop.BufferSize

// responseBuffer is how many bytes of an answer the Response buffers at least.
const responseBuffer = 16 << 10

// Flow is the way of an answer to its client. As long as the spool has room, the upstream does not
// wait for the client. The zero value is ready for Begin; Drop must be called in the end, also if
// the thread is killed. Only the request's thread may use it.
type Flow struct {
	req    *conn.Request
	resp   *conn.Response
	log    *slog.Logger
	duplex *conn.Duplex // nil: body and answer do not move at once yet
	begun  int          // bytes written before that

	limit      int64 // of the spool: a spool that is longer stops the upstream
	spool      spool
	clientFull bool // the client has no room for all written bytes
	discard    bool

	rateLimited bool          // see AwaitRoom
	checkedAt   time.Duration // when it was found out whether it has to be, by the loop's clock
}

// Begin begins the answer. limit is how many bytes the flow may hold. With upload, the request's
// body and the answer move at once (conn.Duplex) from now on. Otherwise they do as soon as any of
// the answer goes out: most answers are short, and go out as a whole when the handler returns. It
// is no error to call Begin again for another attempt to get an answer.
func (f *Flow) Begin(
	req *conn.Request, resp *conn.Response, limit int64, log *slog.Logger, upload bool,
) {
	if f.req == nil {
		f.req, f.resp, f.log = req, resp, log
		f.limit = limit
		f.spool.size = limit + loop.BufferSize // a caller asks Full before it reads a buffer
	}
	if upload {
		f.moveAtOnce()
	}
}

// moveAtOnce comes before all that might wait for the client.
func (f *Flow) moveAtOnce() {
	if f.duplex == nil {
		f.duplex = f.req.Layer().Duplex()
	}
}

// Unbuffered makes the upstream wait for the client from here on.
func (f *Flow) Unbuffered() { f.limit = 0 }

// HasHeld reports whether bytes are held for the client, so that the next ones have to queue. There
// are none before body and answer move at once.
func (f *Flow) HasHeld() bool { return f.duplex != nil && (f.clientFull || f.spool.len() > 0) }

// ClientFull reports that the client has no room for all written bytes.
func (f *Flow) ClientFull() bool { return f.clientFull }

// Full reports that the upstream has to wait until the client has taken some bytes.
func (f *Flow) Full() bool {
	if f.discard || !f.HasHeld() {
		return false
	}
	if f.spool.len() == 0 {
		if room := f.resp.Layer().TapRoom(); room > f.limit { // others may wait for the answer
			f.limit, f.spool.size = room, room+loop.BufferSize
		}
	}
	return f.spool.len() >= f.limit
}

// Write gives a piece of the body to the client, or to the spool if the client has no room for it.
func (f *Flow) Write(p []byte) error {
	if f.discard {
		return nil
	}
	if f.HasHeld() {
		if f.spool.temp == nil { // only now, as it allocates
			f.spool.temp = f.req.Layer().TempFile
		}
		if f.spool.len() == 0 { // what conn holds is in memory, too
			f.spool.memory = max(spoolMemory+waitBytes-f.duplex.Held(), 0)
		}
		f.resp.Layer().FeedTap(p)
		if err := f.spool.write(p); err != nil {
			if err != conn.ErrNoDescriptor { // of which conn tells
				f.log.Warn("reverseproxy: response cannot be spooled", "request_id", f.req.ID(), "error", err)
			}
			f.limit = 0
		}
		return nil
	}
	if f.duplex == nil {
		if f.begun += len(p); f.begun > responseBuffer {
			f.moveAtOnce()
		}
	}
	if f.duplex != nil && f.duplex.Room() < len(p) {
		return f.hold(p)
	}
	_, err := f.resp.Write(p)
	if f.duplex == nil && err == nil {
		return nil
	}
	return f.noteWrite(err)
}

// waitBytes is how much is written to a client that takes nothing, so that a wait for room is
// possible.
const waitBytes = 4 << 10

// hold is Write for a client that does not take all of p: what was gathered and a little more waits
// in conn, and the rest in the spool. So one answer has no more than one buffer for each.
func (f *Flow) hold(p []byte) error {
	err := f.resp.Flush() // which gives up the buffer, too
	for {
		if err = f.noteWrite(err); err != nil || len(p) == 0 {
			return err
		}
		if f.clientFull {
			return f.Write(p)
		}
		n := min(max(f.duplex.Room(), waitBytes), len(p))
		if _, err = f.resp.Write(p[:n]); err == nil {
			err = f.resp.Flush()
		}
		p = p[n:]
	}
}

// Inform sends an interim response, as Response.Inform does.
func (f *Flow) Inform(status int, header *conn.Header) error {
	f.moveAtOnce()
	return f.noteWrite(f.resp.Inform(status, header))
}

// Flush sends what was written. If bytes are held, Pour does so later.
func (f *Flow) Flush() error {
	if f.discard || f.HasHeld() {
		return nil
	}
	f.moveAtOnce()
	return f.noteWrite(f.resp.Flush())
}

// noteWrite is called after each write to the client, with its error. It checks whether the client
// has room for more.
func (f *Flow) noteWrite(err error) error {
	if err == nil {
		var left int
		left, err = f.duplex.SendHeld()
		f.clientFull = left > 0
	}
	if err != nil {
		f.logCut(err)
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	return nil
}

// WriteHeld gives the client as many of the held bytes as it has room for. It has a buffer only
// meanwhile. flush: a Flush may have come while they were held.
func (f *Flow) WriteHeld(flush bool) error {
	if !f.HasHeld() {
		return nil
	}
	if f.clientFull {
		if err := f.noteWrite(nil); err != nil {
			return err
		}
	}
	if f.clientFull || f.discard {
		return nil
	}
	buf := f.req.Thread.Loop().Layer().TakeBuffer()
	defer f.req.Thread.Loop().Layer().PutBuffer(buf) // also when the thread is killed
	for !f.clientFull && f.spool.len() > 0 {
		room := f.duplex.Room()
		n, err := f.spool.read(buf[:min(len(buf), max(room, waitBytes))])
		if err != nil {
			return err
		}
		if _, err = f.resp.Write(buf[:n]); room < len(buf) && err == nil {
			err = f.resp.Flush()
		}
		if err := f.noteWrite(err); err != nil {
			return err
		}
	}
	if flush {
		return f.Flush()
	}
	return nil
}

// Drain gives the client the rest of the answer, when the upstream is not needed any more.
func (f *Flow) Drain(flush bool) error {
	if f.duplex == nil {
		return nil
	}
	f.setMinRate(false)
	for {
		if err := f.WriteHeld(flush); err != nil {
			return err
		}
		if f.discard || !f.HasHeld() {
			break
		}
		if err := f.duplex.Await(-1, false); err != nil {
			return fmt.Errorf("%w: %w", ErrClient, err)
		}
	}
	if err := f.duplex.End(); err != nil && !f.discard {
		return fmt.Errorf("%w: %w", ErrClient, err)
	}
	return nil
}

// Await waits for the client and the upstream at once: for the sources, with read for the next
// bytes of an upload, and for room for what is held. Limit and errors are those of
// conn.Duplex.Await.
func (f *Flow) Await(limit time.Duration, read bool, sources ...loop.Source) error {
	f.moveAtOnce()
	f.setMinRate(false)
	if f.clientTook() {
		return nil
	}
	return f.duplex.Await(limit, read, sources...)
}

// clientTook reports that the client has taken what it had no room for, so that Pour must come
// before a wait: with HTTP/2 the session sends what is held, also while the thread reads from the
// upstream, and then nothing is left that the thread could wait for.
func (f *Flow) clientTook() bool { return f.clientFull && !f.discard && f.duplex.Held() == 0 }

// Discard drops what is held. From now on the client gets no more of the answer.
func (f *Flow) Discard() {
	f.discard = true
	f.spool.drop()
}

// Discarded reports whether Discard was called.
func (f *Flow) Discarded() bool { return f.discard }

// Drop releases the bytes that the flow holds.
func (f *Flow) Drop() {
	if f.duplex != nil { // before that, it holds none
		f.spool.drop()
	}
}
