//go:build !amd64 && !arm64 && !riscv64

package confine

// There is no list for this architecture, so FilterCalls refuses.
const auditArch = 0

var legacyCalls []uintptr
