// Package wait waits for what has no event that a test could wait for.
package wait

import (
	"testing"
	"time"
)

// Patience is how long a test waits for what must come. It is not spent when things go well. It is
// for hangs: on a machine that does much else, some tests take many seconds.
const Patience = time.Minute

// Until looks once a millisecond, until is returns true. Without that, the test fails.
func Until(t testing.TB, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(Patience); !is(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, Patience)
		}
	}
}
