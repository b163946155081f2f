package websocket

import (
	"bytes"
	"compress/flate"
	"sync"
)

// deflater compresses messages, one at a time (RFC 7692 section 7.2.1).
type deflater struct {
	w    *flate.Writer
	into bytes.Buffer
}

var deflaters = sync.Pool{New: func() any {
	d := new(deflater)
	d.w, _ = flate.NewWriter(&d.into, flate.BestSpeed) // fails for no such level
	return d
}}

// deflateTo appends p, compressed, to dst.
func deflateTo(dst, p []byte) []byte {
	d := deflaters.Get().(*deflater)
	d.into = *bytes.NewBuffer(dst)
	d.w.Reset(&d.into)
	_, _ = d.w.Write(p) // a Buffer takes all
	_ = d.w.Flush()
	dst = d.into.Bytes()
	d.into = bytes.Buffer{}
	deflaters.Put(d)
	return dst[:len(dst)-len(blockEnd)]
}

// blockEnd is what a Flush writes at last: an empty stored block, of which the sender removes four
// bytes.
const blockEnd = "\x00\x00\xff\xff"
