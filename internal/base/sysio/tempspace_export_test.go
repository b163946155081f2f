package sysio

import "time"

// Age makes f older, by seconds in which nothing is written.
func Age(f *TempFile, seconds int) {
	d := time.Duration(seconds) * time.Second
	f.begun, f.grown = f.begun.Add(-d), f.grown.Add(-d)
}
