package main

import (
	"math"
	"slices"
)

// median leaves out NaN, a round that failed. Of no values it is NaN, which the report prints as a dash.
func median(values []float64) float64 {
	sorted := sortedNumbers(values)
	if len(sorted) == 0 {
		return math.NaN()
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// ratio is the median of the rounds' ratios, not the ratio of medians: what disturbs the machine for a while
// disturbs both servers of a round. NaN in either list leaves its round out.
func ratio(values, base []float64) float64 {
	var ratios []float64
	for i := range min(len(values), len(base)) {
		if r := values[i] / base[i]; !math.IsInf(r, 0) {
			ratios = append(ratios, r)
		}
	}
	return median(ratios)
}

// most is the largest value, NaN of none.
func most(values []float64) float64 {
	sorted := sortedNumbers(values)
	if len(sorted) == 0 {
		return math.NaN()
	}
	return sorted[len(sorted)-1]
}

// spread is the distance between the extremes as a part of the median.
func spread(values []float64) float64 {
	sorted := sortedNumbers(values)
	if len(sorted) == 0 {
		return math.NaN()
	}
	return (sorted[len(sorted)-1] - sorted[0]) / median(sorted)
}

func sortedNumbers(values []float64) []float64 {
	return slices.Sorted(func(yield func(float64) bool) {
		for _, v := range values {
			if !math.IsNaN(v) && !yield(v) {
				return
			}
		}
	})
}
