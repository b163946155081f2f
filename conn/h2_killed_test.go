package conn_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
)

// TestHTTP2KilledBeforeItRan: a stop may kill streams whose threads have begun and not run, because
// others that came with them have taken longer than the grace period.
func TestHTTP2KilledBeforeItRan(t *testing.T) {
	t.Parallel()
	const connections, streams = 6, 8
	begun, sent, ran := make(chan struct{}), make(chan struct{}), 0
	s := start(t, modes.HTTP2, conn.Config{Handler: func(_ *conn.Request, w *conn.Response) int {
		if ran++; ran == 1 {
			close(begun)
			<-sent // holds the loop up: the rest comes in one turn, which has no time for all
		}
		time.Sleep(2 * time.Millisecond)
		return w.Text(200, "late")
	}})
	dial2(t, s).get(1).flush()
	var all []*raw2
	for range connections {
		all = append(all, dial2(t, s).flush())
	}
	<-begun
	for _, r := range all {
		for id := uint32(1); id < 2*streams; id += 2 {
			r.get(id)
		}
		r.flush()
	}
	s.All[0].Stop(0)
	close(sent)
	s.Stop(0)
	if ran > connections*streams/2 {
		t.Errorf("%d have run", ran)
	}
}
