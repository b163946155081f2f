package metrics_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/metrics"
)

func TestBucket(t *testing.T) {
	const last = metrics.FirstBound << (metrics.TimeBounds - 1)
	for d, want := range map[time.Duration]int{
		-1: 0, 0: 0, metrics.FirstBound: 0, metrics.FirstBound + 1: 1, 2 * metrics.FirstBound: 1,
		2*metrics.FirstBound + 1: 2, last: metrics.TimeBounds - 1, last + 1: metrics.TimeBounds,
		time.Hour: metrics.TimeBounds,
	} {
		if got := metrics.Bucket(d); got != want {
			t.Errorf("%v: %d, want %d", d, got, want)
		}
	}
}
