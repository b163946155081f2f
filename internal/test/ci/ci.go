// Package ci tells a test whether .ci/run runs it, which sets LWANGO_CI=1, or a newcomer's go test.
//
// What a newcomer runs touches nothing outside its temporary folders and is quick. A test that
// installs something, changes the machine, needs root or namespaces, runs large programs of
// packages, or takes more than some seconds, begins with Only or Root. A test that needs no more
// than a program that is often there looks for it, and calls Lacks if it is not.
package ci

import (
	"os"
	"testing"
)

// Enabled reports whether .ci/run, or somebody who asks for all that it runs, runs the tests.
func Enabled() bool { return os.Getenv("LWANGO_CI") == "1" }

// Only leaves the test out unless LWANGO_CI is 1. why says what it needs or does.
func Only(t testing.TB, why string) {
	t.Helper()
	if !Enabled() {
		t.Skipf("%s: runs with LWANGO_CI=1 alone", why)
	}
}

// Root leaves the test out unless LWANGO_CI is 1. Then it fails if root does not run it.
func Root(t testing.TB) {
	t.Helper()
	Only(t, "needs root")
	if os.Geteuid() != 0 {
		t.Fatal("needs root")
	}
}

// Without leaves the test out of builds that have what it cannot bear: the race detector, or the
// checks of the tag invariants.
func Without(t testing.TB, has bool, why string) {
	t.Helper()
	if has {
		t.Skip(why)
	}
}

// Lacks ends a test that cannot run for want of what, such as a program that is not installed: it
// is left out, or fails if LWANGO_CI is 1.
func Lacks(t testing.TB, what string) {
	t.Helper()
	if Enabled() {
		t.Fatalf("not there: %s", what)
	}
	t.Skipf("not there: %s", what)
}
