package refuse

import (
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/test/must"
)

// Address returns a loopback address at which the kernel refuses connections until the test ends.
// The port is taken, so that no other program can listen there meanwhile.
func Address(t testing.TB) string {
	t.Helper()
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must.Do(t, unix.Bind(fd, &unix.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}))
	bound := must.Get(unix.Getsockname(fd))(t)
	return fmt.Sprint("127.0.0.1:", bound.(*unix.SockaddrInet4).Port)
}
