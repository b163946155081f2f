package ci_test

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
)

// recorder is a test that notes how it ends.
type recorder struct {
	testing.TB
	ended string
}

func (*recorder) Helper() {}

func (r *recorder) end(how, text string) {
	r.ended = how + ": " + text
	runtime.Goexit()
}

func (r *recorder) Skipf(format string, args ...any) {
	r.end("skip", fmt.Sprintf(format, args...))
}
func (r *recorder) Fatalf(format string, args ...any) {
	r.end("fail", fmt.Sprintf(format, args...))
}
func (r *recorder) Fatal(args ...any) { r.end("fail", fmt.Sprint(args...)) }

// TestEnds: how a test ends for a newcomer and under .ci/run, with root's rights and without.
// Empty: it goes on.
func TestEnds(t *testing.T) {
	only := func(t testing.TB) { ci.Only(t, "installs a package") }
	lacks := func(t testing.TB) { ci.Lacks(t, "nginx") }
	isRoot := syscall.Geteuid() == 0
	for _, test := range []struct {
		name, env string
		root      bool
		call      func(testing.TB)
		want      string
	}{
		{"only", "", false, only, "skip: installs a package: runs with LWANGO_CI=1 alone"},
		{"only", "0", false, only, "skip: installs a package: runs with LWANGO_CI=1 alone"},
		{"only", "1", false, only, ""},
		{"root", "", false, ci.Root, "skip: needs root: runs with LWANGO_CI=1 alone"},
		{"root", "", true, ci.Root, "skip: needs root: runs with LWANGO_CI=1 alone"},
		{"root", "1", false, ci.Root, "fail: needs root"},
		{"root", "1", true, ci.Root, ""},
		{"lacks", "", false, lacks, "skip: not there: nginx"},
		{"lacks", "1", false, lacks, "fail: not there: nginx"},
	} {
		if test.root && !isRoot {
			continue
		}
		t.Setenv("LWANGO_CI", test.env)
		r := &recorder{TB: t}
		done := make(chan struct{})
		go func() {
			defer close(done)
			runtime.LockOSThread() // the thread ends with the goroutine, and its user with it
			if isRoot && !test.root {
				const nobody, same = 65534, ^uintptr(0)
				_, _, errno := syscall.RawSyscall(syscall.SYS_SETRESUID, same, nobody, same)
				if errno != 0 {
					t.Errorf("setresuid: %v", errno)
				}
			}
			test.call(r)
		}()
		<-done
		if r.ended != test.want {
			t.Errorf("%s, LWANGO_CI=%q, root %v: %q, want %q", test.name, test.env, test.root,
				r.ended, test.want)
		}
	}
}
