package websocket

import (
	"bytes"
	"compress/flate"
	"io"
	"slices"
	"sync"
)

// inflater undoes permessage-deflate, one whole message at a time. So it can check the limit after
// inflation, and that a message does not go on after its compressed data.
type inflater struct {
	from bytes.Reader
	r    io.ReadCloser
}

var inflaters = sync.Pool{New: func() any { return &inflater{r: flate.NewReader(nil)} }}

// leftOut is the end of a message, which the sender removes (RFC 7692 section 7.2.1), and an empty
// last block, which ends the stream.
const leftOut = "\x00\x00\xff\xff\x01\x00\x00\xff\xff"

// inflate appends the inflated src, which may refer to dict, to dst. It stops beyond limit bytes.
// complete says that src is a whole message with leftOut at its end; otherwise src is the beginning
// of one.
func (f *inflater) inflate(dst, src, dict []byte, limit int64,
	complete bool) ([]byte, *CloseError) {
	// After a block that says that it is the last, one octet may follow (RFC 7692 section 7.2.3.4),
	// but no more.
	behind := 1
	if complete {
		behind += len(leftOut)
	}
	f.from.Reset(src)
	_ = f.r.(flate.Resetter).Reset(&f.from, dict) // never fails
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, len(dst)+1)
		}
		n, err := f.r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		switch {
		case int64(len(dst)) > limit:
			return dst, errTooBig
		case err == io.EOF && f.from.Len() > behind:
			return dst, errInflate
		case err == io.EOF, err == io.ErrUnexpectedEOF && !complete:
			return dst, nil
		case err != nil:
			return dst, errInflate
		}
	}
}
