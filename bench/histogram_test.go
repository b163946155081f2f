package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// Every value lies in its bucket, and buckets follow each other without gap or overlap.
func TestBuckets(t *testing.T) {
	for bucket := range (64 - subBits) << subBits {
		edge := upperEdge(bucket)
		if got := bucketOf(edge); got != bucket {
			t.Fatalf("bucketOf(upperEdge(%d) = %d) = %d", bucket, edge, got)
		}
		if edge == math.MaxInt64 {
			return // the longest duration; what lies above is never counted
		}
		if got := bucketOf(edge + 1); got != bucket+1 {
			t.Fatalf("bucketOf(%d) = %d, want %d", edge+1, got, bucket+1)
		}
	}
	t.Fatal("the buckets do not reach the longest duration")
}

func TestQuantileSmall(t *testing.T) {
	var h histogram
	if got := h.quantile(0.99); got != 0 {
		t.Errorf("quantile of nothing = %v", got)
	}
	for i := 1; i <= 100; i++ {
		h.add(time.Duration(i))
	}
	for q, want := range map[float64]time.Duration{0: 1, 0.01: 1, 0.5: 50, 0.99: 99, 0.991: 100, 1: 100} {
		if got := h.quantile(q); got != want {
			t.Errorf("quantile(%v) = %d, want %d", q, got, want)
		}
	}
}

func TestQuantileAgainstSorted(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	var h histogram
	var all []time.Duration
	for range 10000 {
		d := time.Duration(math.Exp(random.Float64() * 23)) // 1 ns to about 10 s, evenly over the powers
		h.add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.1, 0.5, 0.9, 0.99, 0.999, 1} {
		want := all[int(math.Ceil(q*float64(len(all))))-1]
		got := h.quantile(q)
		if got < want || float64(got) > float64(want)*(1+1.0/128)+1 {
			t.Errorf("quantile(%v) = %v, want %v or up to 1/128 more", q, got, want)
		}
	}
}

func TestHistogramExtremes(t *testing.T) {
	var h histogram
	h.add(-1) // clocks of different CPUs may disagree by a little
	h.add(math.MaxInt64)
	if h.quantile(0.5) != 0 || h.quantile(1) != math.MaxInt64 {
		t.Errorf("quantiles %v and %v", h.quantile(0.5), h.quantile(1))
	}
}
