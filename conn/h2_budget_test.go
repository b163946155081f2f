package conn_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/invariants"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/wire/http2"
	"github.com/lwango/lwango/loop"
)

// TestHTTP2BudgetOfATurn: what a connection may move before others have their turn is for one turn.
// One that has been idle has all of it: it does not stand behind a crowd for what it has moved long
// before.
func TestHTTP2BudgetOfATurn(t *testing.T) {
	ci.Without(t, invariants.Enabled, "reads that find nothing wake a thread once more")
	s := start(t, modes.HTTP2, conn.Config{Handler: hello})
	r := dial2(t, s)
	resumed := func() (n int64) {
		s.Settle()
		s.On(func(l *loop.Loop) { n = l.Stats().Resumes })
		return n
	}
	ping := func() int64 {
		before := resumed()
		r.frame(http2.Ping, 0, 0, "12345678").flush()
		for h, _ := r.next(); h.Type != http2.Ping; h, _ = r.next() {
		}
		return resumed() - before
	}
	ping()
	want := ping()
	for i := range 100 { // each costs what at least 8 KiB do
		if n := ping(); n != want {
			t.Fatalf("%d: its thread was resumed %d times, want %d", i, n, want)
		}
	}
}
