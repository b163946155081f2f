package handlers

import (
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/lwango/lwango/internal/ascii"
)

// Size is a number of bytes in settings. In a file it is "16KiB" (powers of 1024: KiB, MiB, GiB,
// TiB), "16kB" (powers of 1000: kB, MB, GB, TB), "100B" or a plain integer. A bare "16k" is
// refused: it means 16,000 to some programs and 16,384 to others.
type Size int64

var sizeUnits = []struct {
	name  string
	bytes int64
}{
	{"TiB", 1 << 40}, {"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10},
	{"TB", 1e12}, {"GB", 1e9}, {"MB", 1e6}, {"kB", 1e3}, {"B", 1},
}

// ParseSize reads a size as it stands in a file. The case of units does not matter; it refuses
// fractions.
func ParseSize(s string) (Size, error) {
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit := s[len(digits):]
	factor := int64(1)
	if unit != "" {
		factor = 0
		for _, u := range sizeUnits {
			if ascii.EqualFold(u.name, unit) {
				factor = u.bytes
				break
			}
		}
		if factor == 0 {
			return 0, fmt.Errorf(
				"unknown unit %q: write one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB", unit)
		}
	}
	n, err := strconv.ParseInt(strings.TrimSpace(digits), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("expected a size such as \"16KiB\", found %q", s)
	}
	if n > math.MaxInt64/factor || n < math.MinInt64/factor {
		return 0, fmt.Errorf("%s is more than can be counted", s)
	}
	return Size(n * factor), nil
}

// String gives the shortest exact form in powers of 1024.
func (s Size) String() string {
	for _, u := range sizeUnits[:4] {
		if s != 0 && int64(s)%u.bytes == 0 {
			return strconv.FormatInt(int64(s)/u.bytes, 10) + u.name
		}
	}
	return strconv.FormatInt(int64(s), 10) + "B"
}
