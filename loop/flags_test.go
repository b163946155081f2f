package loop_test

import (
	"testing"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// The tables against the sentences of the design.
func TestTablesMapCodesToInterest(t *testing.T) {
	const in, out = unix.EPOLLIN, unix.EPOLLOUT
	wanted := map[coro.Code]uint32{
		coro.WantRead: in, coro.WantWrite: out, coro.WantReadWrite: in | out,
		coro.Suspend: 0, coro.AsyncAwaitRead: 0, coro.AsyncAwaitWrite: 0, coro.AsyncAwaitReadWrite: 0,
	}
	for from := range uint32(1 << 2) {
		for _, extra := range []uint32{0, loop.Suspended} {
			f := (from&1)*in<<loop.MaskShift | (from>>1)*out<<loop.MaskShift | extra
			for code := coro.Yield; code < coro.NumCodes; code++ {
				got := loop.NextFlags(f, code)
				want, fixed := wanted[code]
				if !fixed { // Yield and Resume leave the interest alone
					want = f >> loop.MaskShift & (in | out)
				}
				if got>>loop.MaskShift&(in|out) != want {
					t.Errorf("%v from %#x: wants %#x, want %#x", code, f, got>>loop.MaskShift, want)
				}
				waits := code == coro.Suspend || code >= coro.AsyncAwaitRead
				if (got&loop.Suspended != 0) != waits {
					t.Errorf("%v from %#x: suspended %v", code, f, got&loop.Suspended != 0)
				}
			}
		}
	}
}
