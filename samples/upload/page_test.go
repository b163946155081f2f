package main

import "testing"

func TestAmount(t *testing.T) {
	for bytes, want := range map[int64]string{
		0: "0 bytes", 999: "999 bytes", 1000: "1 kB", 99_949: "100 kB", 999_499: "999 kB",
		999_500: "1.0 MB", 3 << 20: "3.1 MB", 1 << 30: "1.1 GB", 99_950_000: "100 MB",
		5e15: "5000 TB",
	} {
		if got := amount(bytes); got != want {
			t.Errorf("%d: %q, want %q", bytes, got, want)
		}
	}
}
