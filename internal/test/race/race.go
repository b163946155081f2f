//go:build race

// Package race tells a test whether the race detector is on, which has memory of its own and takes
// time.
package race

// Enabled reports whether the race detector is on.
const Enabled = true
