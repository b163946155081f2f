package coro_test

import (
	"os"
	"os/exec"
	"runtime"
	"strings"
	"testing"

	"github.com/lwango/lwango/coro"
)

// TestLockedThread: a task may lock its OS thread and wait where the handoff is Channel. With
// Direct that is the end of the process, which the documentation says; another process finds out.
func TestLockedThread(t *testing.T) {
	const variable = "LWANGO_LOCKED"
	run(t, func(t *testing.T, h coro.Handoff) {
		if h == coro.Direct && os.Getenv(variable) == "" {
			cmd := exec.Command(os.Args[0], "-test.run=^TestLockedThread$/^direct$")
			cmd.Env = append(os.Environ(), variable+"=1")
			if out, err := cmd.CombinedOutput(); err == nil ||
				!strings.Contains(string(out), "fatal error: coro") ||
				!strings.Contains(string(out), "UseHandoffChannelOrAwait") {
				t.Errorf("it has survived, and the documentation of Direct says that it does not: %v\n%s", err,
					out)
			}
			return
		}
		c := coro.New(h, nil)
		defer c.Close()
		if v := c.Start(taskFunc(func(c *coro.Coro) coro.Value {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			c.Yield(coro.Make(coro.Suspend, 0))
			return coro.Make(coro.WantRead, 0)
		})); v.Code() != coro.Suspend {
			t.Errorf("it waits with %v", v.Code())
		}
		if v := c.Resume(); v.Code() != coro.WantRead || !c.Parked() {
			t.Errorf("it ends with %v", v.Code())
		}
	})
}
