package stream_test

import (
	"errors"
	"io"
	"testing"

	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// TestPipe: a pipe moves what there is and what there is room for, without a wait, and holds the
// rest.
func TestPipe(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		from, src := pair(t, l, "tcp")
		dst, to := pair(t, l, "tcp")
		l.Go(func(th *loop.Thread) {
			var p stream.Pipe
			defer p.Drop()
			if n, err := p.Fill(src, 100); n != 0 || err != stream.ErrWouldBlock {
				t.Errorf("nothing has come: %d, %v", n, err)
			}
			data := chacha(20 << 20)
			th.Go(func(*loop.Thread) error {
				defer from.Close()
				_, err := from.Write(data)
				return err
			})
			must.Do(t, src.AwaitRead(-1))
			n, err := p.Fill(src, 100)
			if n != 100 || err != nil || p.Held() != 100 {
				t.Errorf("a limit: %d, %v, held %d", n, err, p.Held())
			}
			total, full := 0, false
			for err == nil {
				total += n
				left := n
				for left > 0 && err == nil {
					if left, err = p.Drain(dst); left != p.Held() {
						t.Errorf("%d left, %d held", left, p.Held())
					}
					if left > 0 && !full { // only now, the other side begins to read
						full = true
						th.Go(func(*loop.Thread) error {
							got, err := io.ReadAll(to)
							if string(got) != string(data) {
								t.Errorf("%d bytes, or others", len(got))
							}
							return errors.Join(err, to.Close())
						})
					}
					if left > 0 {
						must.Do(t, dst.AwaitWrite(-1))
					}
				}
				if err != nil {
					break
				}
				for n, err = p.Fill(src, 1<<20); err == stream.ErrWouldBlock; n, err = p.Fill(src, 1<<20) {
					must.Do(t, src.AwaitRead(-1))
				}
			}
			if err != io.EOF || total != len(data) || !full || p.Held() != 0 {
				t.Errorf("%d bytes, %v, full: %t, held: %d", total, err, full, p.Held())
			}
			_ = src.Close()
			if _, err := p.Fill(src, 1); err == nil {
				t.Error("a closed stream")
			}
			_ = dst.Close()
		})
	})
}

// TestPipesAreBounded: however many peers stop reading, pipes have a sixteenth of the descriptors.
// Bytes for which there is no pipe can be read.
func TestPipesAreBounded(t *testing.T) {
	onLoop(t, func(t *testing.T, l *loop.Loop) {
		bound := stream.PipesMade() + 2
		b := openfiles.New(bound * 32)
		stream.SetBudget(t, b)
		if n := stream.MaxPipes(); n != bound {
			t.Errorf("%d pipes may be, want %d", n, bound)
		}
		l.Go(func(th *loop.Thread) {
			refused := 0
			held := make([]stream.Pipe, bound+3)
			for i := range held {
				from, src := pair(t, l, "unix")
				defer from.Close()
				defer src.Close()
				defer held[i].Drop()
				_, err := from.Write([]byte("x"))
				must.Do(t, err)
				must.Do(t, src.AwaitRead(-1))
				n, err := held[i].Fill(src, 100)
				if err == errors.ErrUnsupported {
					refused++
					n, err = src.Read(make([]byte, 100))
				}
				if n != 1 || err != nil {
					t.Errorf("%d: %d, %v", i, n, err)
				}
			}
			if b.Kept() == 0 || b.Kept() > 2*bound {
				t.Errorf("%d descriptors are counted for %d pipes at most", b.Kept(), bound)
			}
			if n := stream.PipesMade(); refused < 3 || n > bound {
				t.Errorf("%d of %d refused, %d pipes, want %d at most", refused, len(held), n, bound)
			}
		})
	})
}
