package servefiles

import (
	"bytes"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/content/coding"
	"github.com/lwango/lwango/internal/modules/compression"
)

// sibling returns the file beside f that has the same in a coding that the client accepts, such as
// app.js.br for app.js, or f if there is none that is at least as new. It owns f. A sibling is a
// representation of its own, with its own entity tag, dates and ranges.
//
// Several ranges are of f: a body with parts of a sibling would have its Content-Encoding, and
// clients then decode that body, headers of parts and all, which nobody has encoded.
//
// If the thread is killed while it waits for a disk, f is closed.
func (m *module) sibling(req *conn.Request, resp *conn.Response, f *regularFile) *regularFile {
	resp.Header().Vary("Accept-Encoding")
	if severalRanges(req) || f.lacksAll(m.coding.Order) {
		return f // so that a file that is asked for often costs no look at what the client accepts
	}
	unused := f
	defer func() {
		if unused != nil {
			unused.Close()
		}
	}()
	var space [coding.Kinds]coding.Coding
	for _, c := range compression.Rank(req, space[:0], m.coding.Order) {
		if f.lacks&(1<<c) != 0 {
			continue
		}
		// The name has been looked at: if it is neither hidden nor the source of a script, then
		// with an ending behind it, it is not, either.
		var name, key [usualName]byte
		s, status := m.openAs(req.Loop(), siblingKey(key[:0], f, c),
			append(append(name[:0], f.facts.name...), c.Extension()...))
		switch {
		case status != 0:
		case older(s.facts.mtime, f.facts.mtime):
			s.Close()
		default:
			return s
		}
		f.lacks |= 1 << c
	}
	unused = nil
	return f
}

func severalRanges(req *conn.Request) bool {
	value, _ := req.Layer().HeaderView("Range")
	return bytes.IndexByte(value, ',') >= 0
}

// lacksAll reports whether f is known to have no sibling in any of these codings.
func (f *regularFile) lacksAll(codings []coding.Coding) bool {
	for _, c := range codings {
		if f.lacks&(1<<c) == 0 {
			return false
		}
	}
	return true
}

// siblingKey appends the name that the sibling has in the cache. It is not that of the file: asked
// for by its own name, app.js.br is a file like any other. No file has a zero byte in its name.
func siblingKey(dst []byte, f *regularFile, c coding.Coding) []byte {
	return append(append(append(dst, f.facts.name...), 0), c.String()...)
}

func older(a, b unix.Timespec) bool { return a.Sec < b.Sec || a.Sec == b.Sec && a.Nsec < b.Nsec }
