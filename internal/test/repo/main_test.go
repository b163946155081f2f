// Package repo tests the repository itself: its documents and examples, the imports of its
// packages, what a program that uses the module gets, and the script that every change must pass.
package repo_test

import (
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../../.."); err != nil {
		panic(err)
	}
	os.Exit(m.Run())
}
