package conn

import (
	"bufio"
	"io"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// Flush is an optional method of a loop.Task.
func (e *background) Flush() { e.sink.Flush() }

// Client is an optional method of a loop.Task.
func (e *background) Client() netip.Addr {
	if e.x != nil && e.x.req.client.IsValid() {
		return e.x.req.client.Addr()
	}
	return e.remote.addrPort().Addr()
}

// exchange implements record.
func (e *background) exchange() *exchange { return e.x }

func (e *background) failed(what string, args ...any) {
	e.x.set.Logger.Error(what, append(e.x.about(args...), "remote", e.x.req.RemoteAddr())...)
}

// interim implements carrier.
func (e *background) interim(status int, fields []Field) { e.sink.Inform(status, fields) }

// head implements carrier.
func (e *background) head(p *plan) {
	w := &e.x.resp
	h := &e.said
	*h = SentHead{Status: p.status, Reason: p.reason, Length: -1, Relayed: w.manner == relayed,
		Forwarded: e.forwarded, Fields: slices.Grow(h.Fields[:0], len(p.fields)+1)}
	for _, f := range p.fields {
		if !ofServer(f.Name) {
			h.Fields = append(h.Fields, f)
		}
	}
	if p.contentType != "" {
		h.Fields = append(h.Fields, Field{"Content-Type", p.contentType})
	}
	switch {
	case p.bare:
		h.Length = 0
	case p.extent == byLength:
		h.Length = p.length
	}
	if n, ok := w.declared(); ok && p.extent == byLength && !p.bare && n != p.length {
		e.unsound = true
	}
	e.whole = p.bare || e.whole && w.enc == nil
	switch {
	case !e.whole:
		e.headed = true
		e.Thread.Layer().FlushBeforeWait(true)
		e.sink.Head(h)
	case p.bare:
		e.end(nil)
	}
}

// data implements carrier.
func (e *background) data(p []byte) error {
	if e.whole {
		e.content = p
		return nil
	}
	if e.err == nil {
		e.err = e.sink.Write(&e.Thread, p)
	}
	if e.err == nil {
		e.Thread.Layer().FlushBeforeWait(true)
		e.spend(len(p))
	}
	return e.err
}

// file implements carrier.
func (e *background) file(f File, off, n int64) error {
	r := newFileReader(&e.Thread, f, off, n)
	buf := buffers.Get().(*[streamAt]byte)
	defer buffers.Put(buf)
	for n > 0 {
		k, err := r.Read(buf[:min(n, int64(len(buf)))])
		if k > 0 {
			if err := e.data(buf[:k]); err != nil {
				return err
			}
			n -= int64(k)
		}
		if err != nil && n > 0 {
			if err == io.EOF {
				err = errShortBody
			}
			return e.abort(err)
		}
	}
	return nil
}

// end implements carrier.
func (e *background) end(trailer []Field) {
	if e.err != nil || e.ended {
		return
	}
	e.unsound = e.unsound || e.x.resp.endUncertain
	if e.whole {
		h := &e.said
		if h.Whole = !e.unsound && len(trailer) == 0; h.Whole {
			h.Content = e.content
		}
		if e.ended = e.sink.Head(h); e.ended {
			return
		}
		e.headed = true
		// while Write waits for those who read, these have to know the head
		e.Thread.Layer().FlushBeforeWait(true)
		if len(e.content) > 0 {
			if e.err = e.sink.Write(&e.Thread, e.content); e.err != nil {
				return
			}
		}
	}
	e.ended = true
	e.sink.End(trailer, !e.unsound)
}

// abort implements carrier.
func (e *background) abort(err error) error {
	if e.err == nil {
		e.err = err
	}
	return e.err
}

func (e *background) writeError() error  { return e.err }
func (e *background) sent(n int64) int64 { return n }

// spend implements carrier: other threads run from time to time.
func (e *background) spend(n int) {
	if e.spent += n; e.spent >= backgroundBudget {
		e.spent = 0
		e.Thread.Layer().GiveWay()
	}
}

// awaitDuplex implements carrier. Nothing is held, and nothing is to come.
func (e *background) awaitDuplex(limit time.Duration, read bool, sources []loop.Source) error {
	if read {
		return nil
	}
	_, err := e.Thread.AwaitAny(limit, sources...)
	return err
}

// flush implements carrier.
func (e *background) flush() error {
	if e.headed {
		e.Thread.Layer().FlushBeforeWait(false)
		e.sink.Flush()
	}
	return e.err
}

// readBody implements carrier.
func (e *background) readBody(p []byte, _ bool) (n int, err error) {
	n = copy(p, e.sends)
	if e.sends = e.sends[n:]; len(e.sends) == 0 {
		err = io.EOF
	}
	return n, err
}

// awaitBody implements carrier.
func (e *background) awaitBody(bool) error {
	if !e.arrived() {
		return io.EOF
	}
	return nil
}

func (e *background) beginDuplex()                     {}
func (e *background) endDuplex()                       {}
func (e *background) dropDuplex()                      {}
func (e *background) held() int                        { return 0 }
func (e *background) room() int                        { return unlimited }
func (e *background) sendHeld() (int, error)           { return 0, e.err }
func (e *background) arrived() bool                    { return len(e.sends) > 0 }
func (e *background) readExpired() bool                { return false }
func (e *background) keepTrailer()                     {}
func (e *background) trailer(func(name, value []byte)) {}
func (e *background) setReadDeadline(time.Time)        {}
func (e *background) setWriteDeadline(time.Time)       {}
func (e *background) setMinRate(int)                   {}
func (e *background) setBodyTimeout(time.Duration)     {}
func (e *background) paces() (_, _ *stream.Pace)       { return nil, nil }
func (e *background) setMaxRate(int64) int64           { return 0 }
func (e *background) slim()                            {}
func (e *background) upgrade(*plan)                    {}

func (e *background) hijack() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoConnection }
func (e *background) detach() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoConnection }
func (e *background) keepOpen() (owner, *Tail)                 { return nil, nil }
func (e *background) multiplexed() multiplexed                 { return nil }
func (e *background) direct() direct                           { return nil }
