package cachestore_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/content/cachestore"
)

// BenchmarkPurgeLine is a purge of a URL below which there are so many keys, as one POST makes it,
// beside a million other answers. The keys are put in anew before each.
func BenchmarkPurgeLine(b *testing.B) {
	s := store(b, 4<<30)
	for i := range 1_000_000 {
		put(b, s, fmt.Sprintf("http://other.example/%d\nsite\n/\n\n\n", i), cachestore.Head{}, "")
	}
	for _, keys := range []int{0, 1, 32, 100, 10_000} {
		b.Run(fmt.Sprint(keys), func(b *testing.B) {
			var took, after time.Duration
			left := 0
			for i := range b.N {
				line := fmt.Sprintf("http://test.example/%d/%d", keys, i)
				for k := range keys {
					put(b, s, fmt.Sprintf("%s\nsite\n/\n\n\nx-host:%d", line, k), cachestore.Head{}, "")
				}
				began := time.Now()
				_ = s.Purge(cachestore.Purge{Lines: [][]byte{[]byte(line)}})
				took += time.Since(began)
				began = time.Now()
				for k := range keys {
					left += len(s.Lookup(nil, s.Key([]byte(fmt.Sprintf("%s\nsite\n/\n\n\nx-host:%d", line, k)))))
				}
				after += time.Since(began)
			}
			if left > 0 {
				b.Errorf("%d are left", left)
			}
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(float64(took.Nanoseconds())/float64(b.N), "ns/purge")
			b.ReportMetric(float64(after.Nanoseconds())/float64(max(b.N*keys, 1)), "ns/lookup")
		})
	}
}
