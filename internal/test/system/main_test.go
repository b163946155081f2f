// Package system tests whole servers: programs of lwango as processes, under load, beside other
// work, with what the kernel or the machine refuses, and servers that a program starts and reloads.
package system_test

import (
	"context"
	"os"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/program"
)

// TestMain makes the test's binary the program that a test starts.
func TestMain(m *testing.M) {
	program.Main(m, func() {
		switch {
		case os.Getenv(refused) != "":
			restricted()
		case os.Getenv(strained) != "":
			strain()
		case os.Getenv(seated) != "":
			seats()
		case os.Getenv(mixed) == "origin":
			origin()
		case os.Getenv(mixed) != "":
			os.Exit(lwango.Run(context.Background(), ""))
		default:
			neighbours()
		}
	})
}
