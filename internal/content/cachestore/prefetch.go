//go:build amd64 || arm64

package cachestore

// prefetch has the processor fetch the line of its cache in which an address is. It does not wait
// for that, and nothing happens where there is no memory.
func prefetch(at uintptr)
