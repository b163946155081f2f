package cachestore_test

import (
	"bytes"
	"io"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/loop"
)

// TestBytesOfFills: the bytes of fills are given back once, however they end, and those that a
// reader has still to read when they are given up.
func TestBytesOfFills(t *testing.T) {
	t.Parallel()
	body := bytes.Repeat([]byte("0123456789"), 30_000)
	for name, end := range map[string]func(*cachestore.Fill){
		"aborted":  func(f *cachestore.Fill) { f.Abort(io.ErrUnexpectedEOF) },
		"not kept": func(f *cachestore.Fill) { f.Keep(false); _, _ = f.Commit() },
		"kept":     func(f *cachestore.Fill) { _, _ = f.Commit() },
	} {
		for i := range 4 {
			disk, gone := i&1 != 0, i&2 != 0
			s := store(t, 8<<20)
			if disk {
				s = onDisk(t, t.TempDir())
				settle(t, s)
			}
			before := s.Stats().MemoryBytes
			r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
			goOn := func() {}
			if disk {
				goOn = s.Stall()
			}
			run(t, 1, func(th *loop.Thread) {
				f.Start(cachestore.Head{}, -1)
				if err := f.Write(th, body, -1); err != nil {
					t.Error(name, err)
				}
				if gone {
					r.Close()
				}
				end(f)
				s.Check()
				n := s.Stats().MemoryBytes
				if goOn(); gone {
					return
				}
				if n < before+int64(len(body)) {
					t.Errorf("%s, disk %v: a reader has %d bytes", name, disk, n-before)
				}
				r.Bind(th, -1)
				read, err := io.Copy(io.Discard, struct{ io.Reader }{r})
				if read != int64(len(body)) || (err != nil) != (name == "aborted") {
					t.Errorf("%s, disk %v: %d bytes, %v", name, disk, read, err)
				}
			})
			r.Close()
			r.Close()
			if disk {
				settle(t, s)
			}
			s.Check()
			if n := s.Stats().MemoryBytes; name != "kept" && n != before {
				t.Errorf("%s, disk %v: %d bytes are left", name, disk, n-before)
			}
		}
	}
}
