package cache

import "unsafe"

// agedSize is what aged takes, with its texts, in bytes.
const agedSize = 112

// Size tells the store how much memory k has beside the strings of its head.
func (k *kept) Size() int { return int(unsafe.Sizeof(*k)) + len(k.reason) + agedSize }
