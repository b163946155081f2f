// Package loopback has addresses for tests that choose a port before something listens at it.
package loopback

import (
	"fmt"
	"math/rand/v2"
)

// Host returns an address of 127.0.0.0/8, at random, that hardly any other test has. At 127.0.0.1
// the kernel may give a port that is free now to somebody else before the test has used it.
func Host() string { return fmt.Sprintf("127.%d.%d.1", 1+rand.IntN(254), rand.IntN(256)) }
