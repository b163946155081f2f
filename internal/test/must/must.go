// Package must does what a test needs and does not test.
package must

import (
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
)

// Do ends the test if what it needs has failed:
//
//	must.Do(t, os.Remove(path))
//
// As t.Fatal, it is for the test's own goroutine.
func Do(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Get returns what a call has returned, and ends the test if that has failed:
//
//	c := must.Get(net.Dial("tcp", address))(t)
func Get[T any](value T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		Do(t, err)
		return value
	}
}

// Write makes a file for this user alone, and the folders above it.
func Write(t testing.TB, path, text string) {
	t.Helper()
	Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
	Do(t, os.WriteFile(path, []byte(text), 0o600))
}

// Read returns what is in a file.
func Read(t testing.TB, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	Do(t, err)
	return string(text)
}

// Listen listens at a free port of the loopback address until the test ends.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	Do(t, err)
	t.Cleanup(func() { ln.Close() })
	return ln
}

// Dial connects until the test ends. Reads and writes fail when it has waited long enough.
func Dial(t testing.TB, network, address string) net.Conn {
	t.Helper()
	c, err := net.Dial(network, address)
	Do(t, err)
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(wait.Patience))
	return c
}

// Pipe returns the two ends of a pipe, which are closed when the test ends.
func Pipe(t testing.TB) (r, w *os.File) {
	t.Helper()
	r, w, err := os.Pipe()
	Do(t, err)
	t.Cleanup(func() { r.Close(); w.Close() })
	return r, w
}

// Body returns the body of an answer, which has to be whole, and closes it.
func Body(t testing.TB, resp *http.Response) string {
	t.Helper()
	defer resp.Body.Close()
	return string(Get(io.ReadAll(resp.Body))(t))
}
