// Package leak fails a package's tests when they leave goroutines or descriptors behind, and tells
// what the process takes.
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

	"golang.org/x/sys/unix"
)

// Main is for TestMain: it runs the tests, and then looks at what is left of them.
func Main(m *testing.M) {
	// The runtime's own poller opens its descriptors at the first use of the network.
	if ln, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		ln.Close()
	}
	before, running := open(), goroutines()
	code := m.Run()
	if code == 0 {
		if left := since(running, goroutines); len(left) > 0 {
			fmt.Fprintf(os.Stderr, "goroutines left behind:\n\n%s\n", strings.Join(left, "\n\n"))
			code = 1
		}
		if left := since(before, open); len(left) > 0 {
			fmt.Fprintln(os.Stderr, "descriptors left behind:", strings.Join(left, ", "))
			code = 1
		}
	}
	os.Exit(code)
}

// InUse returns how many bytes of memory the process has in use, stacks included.
func InUse() int64 {
	runtime.GC()
	runtime.GC() // what pools hold goes in two steps
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc + m.StackInuse)
}

// ProcessorTime returns what the process has used.
func ProcessorTime() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_PROCESS_CPUTIME_ID, &ts) // the kernel has it
	return time.Duration(ts.Nano())
}

// Parallel lets n tests that have called t.Parallel run at once, unless the command line says
// otherwise: tests that wait most of the time can be more than the processors. It is called before
// Main.
func Parallel(n int) {
	if err := flag.Set("test.parallel", strconv.Itoa(n)); err != nil {
		panic(err)
	}
}

// since lists what list has that was not there before. Goroutines that end, and descriptors that
// they or finalizers close, get some time; a busy machine needs most of it.
func since(before map[string]string, list func() map[string]string) []string {
	for try := 0; ; try++ {
		var left []string
		for key, what := range list() {
			if _, ok := before[key]; !ok {
				left = append(left, what)
			}
		}
		if len(left) == 0 || try == tries {
			sort.Strings(left)
			return left
		}
		runtime.GC()
		time.Sleep(20 * time.Millisecond)
	}
}

// tries is how often since looks, every 20 ms.
var tries = 200

// open lists the descriptors by their numbers.
func open() map[string]string {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		panic(err)
	}
	fds := make(map[string]string, len(entries))
	for _, e := range entries {
		// the directory's own is closed again
		if what, err := os.Readlink("/proc/self/fd/" + e.Name()); err == nil {
			fds[e.Name()] = e.Name() + " -> " + what
		}
	}
	return fds
}
