//go:build !linux || 386 || arm || mips || mipsle

package sysio

// The compiler's message is the name: a yielded value has a descriptor in its upper 32 bits, an int
// holds the length of any file, and the system calls are Linux's.
var _ = lwango_needs_Linux_on_a_64_bit_processor
