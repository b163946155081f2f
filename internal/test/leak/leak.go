// Package leak fails a package's tests when they leave goroutines or descriptors behind.
package leak

import (
	"flag"
	"fmt"
	"net"
	"os"
	"runtime"
	"sort"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main is for TestMain: it runs the tests, and then looks at what is left of them.
func Main(m *testing.M) {
	// The runtime's own poller opens its descriptors at the first use of the network.
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close()
	}
	before := open()
	code := m.Run()
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
			code = 1
		}
		if left := since(before); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "descriptors left behind:", strings.Join(left, ", "))
			code = 1
		}
	}
	os.Exit(code)
}

// Parallel lets n tests that have called t.Parallel run at once, unless the command line says
// otherwise: tests that wait most of the time can be more than the processors. It is called before
// Main.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// since lists the descriptors opened since before. Descriptors that finalizers or ending goroutines
// close get some time; a busy machine needs most of it.
func since(before map[string]string) []string {
	for try := 0; ; try++ {
		var left []string
		for fd, what := range open() {
			if _, ok := before[fd]; !ok {
				left = append(left, fd+" -> "+what)
			}
		}
		if len(left) == 0 || try == 200 {
			sort.Strings(left)
			return left
		}
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
}

func open() map[string]string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	fds := make(map[string]string, len(entries))
	for _, e := range entries {
		// the directory's own is closed again
		if what, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fds[e.Name()] = what
		}
	}
	return fds
}
