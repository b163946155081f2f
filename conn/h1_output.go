package conn

import (
	"errors"
	"io"
	"os"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// flush implements carrier. What the kernel has refused of earlier answers goes before it, see
// turn.idle.
func (t *turn) flush() error {
	if len(t.out) == 0 && !t.c.Thread.Layer().Descriptor().HasRemainder() {
		return t.writeErr
	}
	out := t.out
	t.out = t.out[:0]
	return t.write(out, nil, false)
}

// multiplexed implements carrier.
func (t *turn) multiplexed() multiplexed { return nil }

// direct implements carrier. With TLS only the thread can encrypt.
func (t *turn) direct() direct {
	if t.c.tls != nil {
		return nil
	}
	return t
}

func (t *turn) more() bool         { return t.stream.Unread() }
func (t *turn) mayWrite() bool     { return t.writeErr == nil && t.writing.MaxRate <= 0 }
func (t *turn) setOffLoop(on bool) { t.duplex.SetOffLoop(on) }

// slim implements carrier.
func (t *turn) slim() {
	if cap(t.out) > 2*heldBuffer {
		t.out = nil
	}
}

// send gathers a small p. It writes a large one at once, behind what was gathered.
func (t *turn) send(p []byte) error {
	if len(p) < copyBelow {
		t.out = append(t.out, p...)
		if len(t.out) < gather {
			return t.writeErr
		}
		return t.flush()
	}
	out := t.out
	t.out = t.out[:0]
	return t.write(out, p, false)
}

// write writes all of a and then all of b. It waits as long as the client keeps its pace. more says
// that the next write follows at once.
func (t *turn) write(a, b []byte, more bool) error {
	switch {
	case t.writeErr != nil:
		return t.writeErr
	case t.c.tls == nil:
		return t.wrote(t.stream.Send(a, b, more))
	}
	t.writeTLS(a)
	t.writeTLS(b)
	return t.writeErr
}

func (t *turn) writeTLS(p []byte) {
	if len(p) > 0 && t.writeErr == nil {
		_ = t.wrote(t.c.tls.Write(p))
	}
}

// wrote implements carrier. If a limit has passed, the connection ends with a reset:
// after an orderly close the kernel would hold the data that the client has not read for minutes.
// After any other error it does not: a TLS alert may be under way, which a reset would take back.
func (t *turn) wrote(_ int, err error) error {
	if err == nil {
		return nil
	}
	if errors.Is(own(err), os.ErrDeadlineExceeded) {
		t.c.resetOnClose()
		if t.writeErr == nil {
			t.slow(err)
		}
	}
	return t.lose(err)
}

// lose is fail for a client that does not take what is written. It cancels the request's context,
// and notes how much the kernel has not sent.
func (t *turn) lose(err error) error {
	if t.writeErr == nil {
		t.unsent = t.c.Thread.Layer().Descriptor().Unsent()
	}
	t.x.canceled(loop.ErrClientGone)
	return t.fail(err)
}

func (t *turn) fail(err error) error {
	if t.writeErr == nil {
		t.writeErr = err
	}
	t.out = t.out[:0]
	if errors.As(err, new(*os.SyscallError)) {
		t.left()
	}
	return t.writeErr
}

// left tells the connection's task that the client has left, which the loop may see only later.
func (t *turn) left() { t.c.Thread.Layer().Task().ClientGone() }

// abort implements carrier. It ends the connection within the answer's body, so that the client can
// tell. What was gathered before goes out, the complete answers to earlier requests included, and a
// lingering close follows: without it the next requests of the client, unread, would make the
// kernel reset the connection and so take those answers away. If the end of the connection is the
// end of the body, only a reset tells the client of the cut (RFC 9112 section 8).
func (t *turn) abort(err error) error {
	if t.flush() == nil {
		if t.delimited == byClose {
			t.c.resetOnClose()
		} else {
			t.aborted = true
		}
	}
	return t.fail(err)
}

// sendFile writes n bytes of f from off on. If the connection is plain, it does not copy them.
func (t *turn) sendFile(f File, off, n int64) error {
	fd := int(f.Fd())
	if t.c.tls != nil {
		return t.sendReader(newFileReader(&t.c.Thread, f, off, n), n)
	}
	out := t.out
	t.out = t.out[:0]
	if err := t.write(out, nil, n > 0); err != nil {
		return err
	}
	sent, err := t.stream.SendFile(fd, off, n)
	switch {
	case err != nil:
		return t.wrote(0, err)
	case sent < n: // truncated while it was being sent
		return t.abort(errShortBody)
	}
	return nil
}

// sendReader copies n bytes from r.
func (t *turn) sendReader(r io.Reader, n int64) error {
	buf := t.x.resp.copyBuffer()
	for n > 0 {
		k, err := r.Read(buf[:min(n, int64(len(buf)))])
		if k > 0 {
			if err := t.send(buf[:k]); err != nil {
				return err
			}
			n -= int64(k)
		}
		if err != nil && n > 0 {
			if err == io.EOF {
				err = errShortBody
			}
			return t.abort(err)
		}
	}
	return nil
}

// slow logs that the client is too slow to take what was written, which may be of complete answers.
func (t *turn) slow(err error) {
	if x := t.x; x.req.Thread != nil && x.resp.phase != complete {
		x.slow(err, &t.writing)
	} else if errors.Is(err, stream.ErrTooSlow) &&
		t.c.Thread.Layer().Task() == loop.Task(t.c) { // else see Tail.slow
		t.c.port.server.logSlow("conn: the client is too slow, it does not get all of its answers",
			&t.writing, false, "remote", t.c.remote.addrPort())
	}
}
