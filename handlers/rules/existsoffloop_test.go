package rules_test

import (
	"os"
	"os/exec"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/refuse"
)

const refused = "LWANGO_TEST_WITHOUT_OPENAT2"

// TestExistsOffTheLoop: without openat2 nothing is known at once, as on a cold disk, and workers
// ask for each file.
func TestExistsOffTheLoop(t *testing.T) {
	if os.Getenv(refused) != "" {
		refuse.Refuse(syscall.EPERM, unix.SYS_OPENAT2)
		TestConditions(t)
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestExistsOffTheLoop$")
	cmd.Env = append(os.Environ(), refused+"=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
