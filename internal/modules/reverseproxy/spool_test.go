package reverseproxy_test

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/modules/reverseproxy"
	"github.com/lwango/lwango/internal/test/must"
)

// TestSpoolWithinLimit: the bytes in a spool's file count for the limit of all temporary files.
// Beyond three quarters of that, a spool holds them in memory, says so once, and loses none.
func TestSpoolWithinLimit(t *testing.T) {
	const limit = 200_000
	var space sysio.TempSpace
	space.Configure(t.TempDir(), limit)
	a, b := reverseproxy.NewSpoolIn(&space, 1<<20), reverseproxy.NewSpoolIn(&space, 1<<20)
	piece := bytes.Repeat([]byte("0123456789"), 3_000)
	must.Do(t, a.Write(piece[:15_000]))
	if n := space.Used(); n != 0 {
		t.Errorf("%d bytes of little are in a file", n)
	}
	for range 4 {
		must.Do(t, a.Write(piece))
	}
	if n := space.Used(); n != 135_000 { // with what was in memory
		t.Errorf("%d bytes counted, want 135,000", n)
	}
	failed := 0
	for range 5 { // 30 kB in the file, and then there is no room
		if err := b.Write(piece); errors.Is(err, conn.ErrSpoolFull) {
			failed++
		} else if err != nil && failed == 0 {
			t.Error(err)
		}
	}
	if failed == 0 {
		t.Error("no error beyond the limit")
	}
	if n := space.Used(); n > limit/4*3 {
		t.Errorf("%d bytes in files; a quarter of %d is for uploads", n, limit)
	}
	var got []byte
	for buf := make([]byte, 10_000); b.Len() > 0; {
		n := must.Get(b.Read(buf))(t)
		got = append(got, buf[:n]...)
	}
	if !bytes.Equal(got, bytes.Repeat(piece, 5)) {
		t.Errorf("%d bytes come back, or others", len(got))
	}
	c := reverseproxy.NewSpoolIn(&space, 1<<20)
	must.Do(t, c.Write(piece[:16_000]))
	if err := c.Write(piece); !errors.Is(err, conn.ErrSpoolFull) {
		t.Errorf("error %v where there is no room for what was in memory", err)
	}
	must.Do(t, c.Write(piece))
	for got = nil; c.Len() > 0; {
		buf := make([]byte, 7_000)
		got = append(got, buf[:must.Get(c.Read(buf))(t)]...)
	}
	if !bytes.Equal(got, bytes.Repeat([]byte("0123456789"), 7_600)) {
		t.Errorf("%d bytes come back, or others", len(got))
	}
	a.Drop()
	b.Drop()
	if n := space.Used(); n != 0 {
		t.Errorf("%d bytes are still counted", n)
	}
}

// TestSpool: a spool gives back what was written, whatever the sizes.
func TestSpool(t *testing.T) {
	source := rand.NewChaCha8([32]byte{})
	for range 20 {
		const limit = 100 << 10
		s := reverseproxy.NewSpool(limit + 32<<10)
		var want, got bytes.Buffer
		p := make([]byte, 32<<10)
		for range 400 {
			if n := rand.IntN(len(p)); s.Len() < limit {
				source.Read(p[:n])
				want.Write(p[:n])
				must.Do(t, s.Write(p[:n]))
			}
			if n := 1 + rand.IntN(len(p)); s.Len() > 0 && rand.IntN(3) > 0 {
				n, err := s.Read(p[:n])
				if n == 0 || err != nil {
					t.Fatal(n, err)
				}
				got.Write(p[:n])
			}
			if have := int64(want.Len() - got.Len()); s.Len() != have {
				t.Fatal(s.Len(), " bytes, want ", have)
			}
		}
		for s.Len() > 0 {
			n := must.Get(s.Read(p))(t)
			got.Write(p[:n])
		}
		if !bytes.Equal(want.Bytes(), got.Bytes()) {
			t.Fatal("not the same")
		}
		s.Drop()
	}
}
