package conn

import (
	"io"

	"github.com/lwango/lwango/internal/wire/http1"
)

// Encoder applies a content coding (RFC 9110 section 8.4.1) to the body of one response. Only the
// request's thread calls it, and it must not wait.
type Encoder interface {
	// Begin makes the encoder ready for a body. What it makes of that, it writes to dst, which
	// takes all and never fails.
	Begin(dst io.Writer)

	// Write takes the next piece of the body, up to 16 KiB, and may keep it for later.
	io.Writer

	// Flush writes to dst what it takes to decode all that was written so far.
	Flush() error

	// Rest gives up what memory it can. It is called behind Flush, when nothing may follow for
	// long.
	Rest()

	// Close writes the end.
	Close() error

	// Release is called last, once, whether the body has come to its end or not.
	Release()
}

// encodeAtOnce is how much of a body is encoded before other threads may get their turn. encodeCost
// is what a byte of it counts within the budget of a turn: as it takes some 10 ns, and sending a
// byte 1 ns, a turn encodes 32 KiB.
const (
	encodeAtOnce = 16 << 10
	encodeCost   = 8
)

// SetEncoder sends the body through e, wherever it comes from. The server frames what comes of it,
// and Flush flushes e, too. The caller sets the header fields that describe the coding
// (Content-Encoding, ETag, Vary). nil: the body is sent as it is.
//
// SetEncoder is for a HeadHook, elsewhere it does nothing. The first call decides, so that what
// wraps a handler closely comes before what is further out. It reports whether this call has.
func (w ResponseLayer) SetEncoder(e Encoder) bool {
	if !w.hooking || w.decided || w.sendsRange() { // a part has no coding of its own
		return false
	}
	w.decided, w.enc = true, e
	if e != nil {
		e.Begin((*codedBody)(w.Response))
	}
	return true
}

// EncoderSet reports whether SetEncoder or UseEncoded has decided about the body.
func (w ResponseLayer) EncoderSet() bool { return w.decided }

// SetEncoded gives the body that SetBody, SetBodyReader or SetBodyFile has set in a content coding
// as well, by the coding's name, for a HeadHook that would encode it. b must not change until the
// response is out. If no body is set, SetEncoded does nothing; whatever sets another one drops b.
func (w ResponseLayer) SetEncoded(coding string, b []byte) {
	if w.phase == open && w.kind != gathered {
		w.encodedAs, w.encoded = coding, b
	}
}

// UseEncoded sends what SetEncoded has given in place of the body. It is for a HeadHook, as
// SetEncoder is, and the first call of either decides. It reports whether there is the body in that
// coding, and this call has decided.
func (w ResponseLayer) UseEncoded(coding string) bool {
	if !w.hooking || w.decided || w.encodedAs != coding {
		return false
	}
	b, of := w.encoded, w.of
	w.of = nil
	w.discard()
	w.decided, w.kind, w.body, w.size, w.of = true, given, b, int64(len(b)), of
	return true
}

// BodySize returns the length of the body in bytes, before SetEncoder, for a HeadHook. It is -1 if
// the server does not know it. For HEAD it is the size of the body that GET would get; 0 if the
// handler has not said it.
func (w ResponseLayer) BodySize() int64 {
	if w.req.head.Method == http1.HEAD {
		if n, ok := w.declared(); ok {
			return n
		}
	}
	return w.size
}

// ContentType returns the type that the head is going to have, for a HeadHook: the one in the
// header, or the one that the server adds if there is none; "" if it adds none.
func (w *Response) ContentType() string {
	if i := w.header.index("Content-Type", 0); i >= 0 {
		return w.header.fields[i].Value
	}
	t := w.impliedType(w.first)
	if w.manner == sniffed && t != "" {
		w.header.Add("Content-Type", t) // so that it is not detected again
	}
	return t
}

// codedBody is where an Encoder writes to. It gathers: an encoder writes a few hundred bytes at a
// time, and each chunk costs its frame.
type codedBody Response

func (c *codedBody) Write(p []byte) (int, error) {
	if c.coded == nil {
		c.coded = buffers.Get().(*[streamAt]byte)[:0]
	}
	c.coded = append(c.coded, p...)
	return len(p), nil
}

// piece sends a piece of the body, through the encoder if there is one.
func (w *Response) piece(p []byte) error {
	if w.size >= 0 {
		if int64(len(p)) > w.left {
			w.Layer().MarkEndUncertain()
			return ErrWroteTooMuch
		}
		w.left -= int64(len(p))
	}
	if w.tap != nil {
		return w.tapPiece(p)
	}
	if w.enc != nil {
		return w.encode(p)
	}
	return w.content(p)
}

// send is piece behind the tap. piece does the same without a call: stacks are small, see encode.
func (w *Response) send(p []byte) error {
	if w.enc == nil {
		return w.content(p)
	}
	return w.encode(p)
}

// encode sends a piece of the body through the encoder. It stands apart from piece because stacks
// are small: a handler that writes a body goes deepest in content.
func (w *Response) encode(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), encodeAtOnce)
		if _, err := w.enc.Write(p[:n]); err != nil {
			return w.encoderFailed(err)
		}
		w.unflushed = true
		p = p[n:]
		if len(w.coded) >= gather {
			if err := w.sendCoded(); err != nil {
				return err
			}
		}
		w.via.spend(n * encodeCost)
	}
	return w.via.writeError()
}

// sendCoded sends what the encoder has written.
func (w *Response) sendCoded() error {
	if len(w.coded) == 0 {
		return w.via.writeError()
	}
	p := w.coded
	w.coded = w.coded[:0]
	return w.content(p)
}

// push sends all that was written so far. The caller has handed it to piece.
func (w *Response) push() error {
	if w.unflushed {
		w.unflushed = false
		if err := w.enc.Flush(); err != nil {
			return w.encoderFailed(err)
		}
		if err := w.sendCoded(); err != nil {
			return err
		}
	}
	return w.unlessTapped(w.via.flush())
}

// rest gives up what the encoder holds while nothing is written. It is called behind push.
func (w *Response) rest() {
	if w.enc != nil {
		w.enc.Rest()
		w.dropCoded()
	}
}

// endBody ends a body whose end the client cannot tell from its length.
func (w *Response) endBody() {
	trailer := w.trailer
	if w.tap != nil {
		if w.sendsRange() {
			trailer = nil // it is about all of the content
		}
		w.endTap(nil)
	}
	if w.plan.bare {
		return
	}
	if w.enc != nil {
		if err := w.enc.Close(); err != nil {
			_ = w.encoderFailed(err)
			return
		}
		w.unflushed = false
		_ = w.sendCoded()
	}
	w.via.end(trailer)
}

// encodeBody sends the body that the handler has set through the encoder. n and err are what
// readAhead has returned.
func (w *Response) encodeBody(n int, err error) {
	switch w.kind {
	case gathered:
		if w.piece(w.buf) == nil {
			w.endBody()
		}
	case given:
		if w.piece(w.body) == nil {
			w.endBody()
		}
	case file:
		w.from = newFileReader(w.x.req.Thread, w.file, w.off, w.size)
		w.sendFrom(0, nil)
	case reader:
		w.sendFrom(n, err)
	}
}

func (w *Response) encoderFailed(err error) error {
	w.x.set.Logger.Error("conn: response body cannot be encoded", w.x.about("error", err)...)
	return w.via.abort(err)
}

// dropEncoder ends the use of the encoder.
func (w *Response) dropEncoder() {
	if e := w.enc; e != nil {
		w.enc, w.unflushed = nil, false
		e.Release()
		w.dropCoded()
	}
}

func (w *Response) dropCoded() {
	if cap(w.coded) == streamAt { // else the encoder has outgrown it
		buffers.Put((*[streamAt]byte)(w.coded[:streamAt]))
	}
	w.coded = nil
}
