package loop_test

import (
	"testing"

	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

// TestEdgeMoves walks all moves from all states, in each direction and in both, against what epoll
// does with an edge-triggered descriptor.
func TestEdgeMoves(t *testing.T) {
	const in, out = uint16(unix.EPOLLIN), uint16(unix.EPOLLOUT)
	after := map[string]map[string]string{
		"requested": {"unknown": "armed", "drained": "armed", "armed": "armed", "fired": "armed", "dead": "dead"},
		// EPOLL_CTL_MOD looks at the descriptor anew for all the events in its mask.
		"besides": {"unknown": "unknown", "drained": "drained", "armed": "armed", "fired": "armed", "dead": "dead"},
		// After EAGAIN the next data is an edge, but only if epoll was asked for it.
		"emptied":  {"unknown": "drained", "drained": "drained", "armed": "armed", "fired": "armed", "dead": "dead"},
		"reported": {"unknown": "unknown", "drained": "unknown", "armed": "fired", "fired": "fired", "dead": "dead"},
		"removed":  {"unknown": "dead", "drained": "dead", "armed": "dead", "fired": "dead", "dead": "dead"},
	}
	if len(after) != loop.NumMoves || len(loop.EdgeStates) != loop.NumEdges {
		t.Fatalf("%d moves of %d, %d states of %d", len(after), loop.NumMoves,
			len(loop.EdgeStates), loop.NumEdges)
	}
	for name, next := range after {
		for r, read := range loop.EdgeStates {
			for w, write := range loop.EdgeStates {
				for _, events := range []uint16{0, in, out, in | out} {
					e := loop.EdgesIn(r, w)
					e.Move(events|unix.EPOLLRDHUP, loop.Moves[name])
					wantRead, wantWrite := read, write
					if events&in != 0 {
						wantRead = next[read]
					}
					if events&out != 0 {
						wantWrite = next[write]
					}
					gotRead, gotWrite := e.States()
					if gotRead != wantRead || gotWrite != wantWrite {
						t.Errorf("%s of %#x from %s, %s: %s, %s, want %s, %s", name, events,
							read, write, gotRead, gotWrite, wantRead, wantWrite)
					}
				}
			}
		}
	}
	for r, read := range loop.EdgeStates {
		for w, write := range loop.EdgeStates {
			e := loop.EdgesIn(r, w)
			armed := map[uint16]bool{0: true, in: read == "armed", out: write == "armed",
				in | out: read == "armed" && write == "armed"}
			for events, want := range armed {
				if e.Armed(events) != want {
					t.Errorf("%s, %s: %#x armed: %v", read, write, events, !want)
				}
			}
			var known uint16
			if read == "armed" || read == "fired" {
				known = in
			}
			if write == "armed" || write == "fired" {
				known |= out
			}
			if got := e.Known(); got != known {
				t.Errorf("%s, %s: epoll knows %#x, want %#x", read, write, got, known)
			}
			if outside := known == 0 && read != "dead" && write != "dead"; e.Outside() != outside {
				t.Errorf("%s, %s: outside %v", read, write, !outside)
			}
			if e.Dead() != (read == "dead") {
				t.Errorf("%s, %s: dead %v", read, write, e.Dead())
			}
		}
	}
}
