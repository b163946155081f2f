package main

import (
	"math"
	"testing"
)

func TestMedian(t *testing.T) {
	rows := []struct {
		values []float64
		want   float64
	}{
		{[]float64{7}, 7},
		{[]float64{9, 1, 5}, 5},
		{[]float64{4, 1, 3, 2}, 2.5},
		{[]float64{1, 1, 1, 1000}, 1}, // one bad round does not show
		{[]float64{math.NaN(), 3, 1}, 2},
	}
	for _, row := range rows {
		before := append([]float64(nil), row.values...)
		if got := median(row.values); got != row.want {
			t.Errorf("median(%v) = %v, want %v", row.values, got, row.want)
		}
		for i := range before {
			if math.Float64bits(before[i]) != math.Float64bits(row.values[i]) {
				t.Errorf("median reordered %v to %v", before, row.values) // ratio pairs values by round
				break
			}
		}
	}
	if got := median(nil); !math.IsNaN(got) {
		t.Errorf("median of nothing = %v, want NaN", got)
	}
}

func TestRatio(t *testing.T) {
	rows := []struct {
		name         string
		values, base []float64
		want         float64
	}{
		{"same in every round", []float64{2, 4, 6}, []float64{1, 2, 3}, 2},
		// The machine was three times slower in the second round: the ratio of medians would say 4/2, too.
		{"disturbed round", []float64{3, 12, 4}, []float64{2, 6, 2}, 2},
		{"failed round", []float64{3, math.NaN(), 5}, []float64{1, 1, 1}, 4},
		{"base of zero", []float64{3, 5}, []float64{0, 1}, 5},
		{"fewer rounds", []float64{3}, []float64{1, 2}, 3},
	}
	for _, row := range rows {
		if got := ratio(row.values, row.base); got != row.want {
			t.Errorf("%s: ratio = %v, want %v", row.name, got, row.want)
		}
	}
	if got := ratio([]float64{1}, nil); !math.IsNaN(got) {
		t.Errorf("ratio to nothing = %v, want NaN", got)
	}
}

func TestSpread(t *testing.T) {
	if got := spread([]float64{math.NaN()}); !math.IsNaN(got) {
		t.Errorf("spread of a failed round = %v", got)
	}
	if got := spread([]float64{9, 10, 12}); math.Abs(got-0.3) > 1e-9 {
		t.Errorf("spread = %v, want 0.3", got)
	}
}
