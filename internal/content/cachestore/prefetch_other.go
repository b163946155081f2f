//go:build !amd64 && !arm64

package cachestore

// prefetch does nothing: what is needed is fetched when it is used.
func prefetch(uintptr) {}
