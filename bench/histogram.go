package main

import (
	"math/bits"
	"time"
)

// subBits gives each power of two 2^subBits buckets of equal width, so a quantile is wrong by less than 1/128.
const subBits = 7

// histogram counts durations of one nanosecond up to the longest there is. The zero value is empty.
type histogram struct {
	count   int64
	max     time.Duration
	buckets [(64 - subBits) << subBits]int64
}

func (h *histogram) add(d time.Duration) {
	d = max(d, 0)
	h.count++
	h.max = max(h.max, d)
	h.buckets[bucketOf(uint64(d))]++
}

// bucketOf keeps the leading one bit and the subBits after it. Below 2^subBits every value has its own bucket.
func bucketOf(v uint64) int {
	shift := bits.Len64(v) - subBits - 1
	if shift < 0 {
		return int(v)
	}
	return shift<<subBits + int(v>>shift)
}

// upperEdge is the largest value of a bucket.
func upperEdge(bucket int) uint64 {
	shift := bucket>>subBits - 1
	if shift < 0 {
		return uint64(bucket)
	}
	base := uint64(bucket - shift<<subBits)
	return (base+1)<<shift - 1
}

// quantile is the smallest value that at least the fraction q of all does not exceed, rounded up to its bucket's edge.
func (h *histogram) quantile(q float64) time.Duration {
	if h.count == 0 {
		return 0
	}
	rank := int64(q * float64(h.count))
	if float64(rank) < q*float64(h.count) {
		rank++
	}
	rank = min(max(rank, 1), h.count)
	seen := int64(0)
	for i, n := range h.buckets {
		if seen += n; seen >= rank {
			return min(time.Duration(upperEdge(i)), h.max)
		}
	}
	return h.max
}
