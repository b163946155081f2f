package upstream_test

import (
	"testing"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/upstream"
)

// TestCounted: each address counts its requests, its failures by kind, and the times until its
// answers have begun; a lease tells how often it has tried.
func TestCounted(t *testing.T) {
	dead := nobody(t, "unix")
	_, a := crowd(t, 1)
	r := alone(t, []string{dead, a[0]}, nil)
	var tries int
	var address string
	r.after = func(l *upstream.Lease) { tries, _, address = l.Attempts() }
	if r.texts(1); tries != 2 || "unix:"+address != a[0] {
		t.Errorf("%d tries, the last one at %s", tries, address)
	}
	r.texts(2)
	if !r.fails("0") {
		t.Fatal("no request of four was there")
	}
	wait.Until(t, "the last request is done", func() bool { return r.Report()[1].Active == 0 })
	rows := r.Report()
	if got := rows[0]; got.Requests != 1 || got.Failures != (metrics.Failures{Connect: 1}) {
		t.Errorf("%+v", got)
	}
	if got := rows[1]; got.Requests != 4 || got.Failures != (metrics.Failures{Silent: 1}) ||
		got.Spent != 0 {
		t.Errorf("%+v", got) // the harness never says that an answer has begun
	}
}
