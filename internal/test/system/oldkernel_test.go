package system_test

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/refuse"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// refused is the variable with the errno by which a program's newer system calls are refused.
const refused = "LWANGO_REFUSED"

// newer are the system calls in use that are younger than what Go itself takes for granted. Kernels
// without them, and filters that do not know them, are still about.
var newer = []uint32{unix.SYS_EPOLL_PWAIT2, unix.SYS_OPENAT2, unix.SYS_SPLICE,
	unix.SYS_MEMFD_CREATE, unix.SYS_STATX}

// restricted is a program that sleeps, serves files and echoes, without newer system calls.
func restricted() {
	errno, err := strconv.ParseUint(os.Getenv(refused), 10, 16)
	if err != nil {
		panic(err)
	}
	refuse.Refuse(syscall.Errno(errno), newer...)
	if _, err := unix.EpollWait(-1, make([]unix.EpollEvent, 1), 0); err != unix.EBADF {
		panic(err)
	}
	if _, err := unix.MemfdCreate("x", 0); err != syscall.Errno(errno) {
		panic(err)
	}

	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	l, err := loop.New(loop.Options{})
	if err != nil {
		panic(err)
	}
	ln, err := stream.StartServer(l, "tcp", "127.0.0.1:0", -1,
		func(_ *loop.Thread, s *stream.Conn) error {
			_, err := io.Copy(s, s)
			return err
		})
	if err != nil {
		panic(err)
	}
	slog.Info("echo", "address", ln.Addr().String())
	go func() { _ = l.Run() }()
	lwango.Handle("/sleep", func(req *lwango.Request, resp *lwango.Response) int {
		if err := req.Sleep(20 * time.Millisecond); err != nil {
			panic(err)
		}
		resp.WriteString("slept")
		return 200
	})
	os.Exit(lwango.Run(context.Background(), ""))
}

// TestRefusedSystemCalls: with a filter that is older than some system calls, or a kernel that is,
// everything works by others.
func TestRefusedSystemCalls(t *testing.T) {
	for _, errno := range []syscall.Errno{unix.EPERM, unix.ENOSYS, unix.EACCES} {
		t.Run(unix.ErrnoName(errno), func(t *testing.T) {
			root := t.TempDir()
			write := func(name, text string) {
				must.Do(t, os.WriteFile(filepath.Join(root, name), []byte(text), 0o644))
			}
			must.Do(t, os.MkdirAll(filepath.Join(root, "www/sub"), 0o755))
			write("www/a.txt", "a file")
			write("www/sub/index.html", "an index")
			write("secret", "not served")
			for name, to := range map[string]string{"in": "a.txt", "out": "../secret",
				"away": root + "/secret"} {
				must.Do(t, os.Symlink(to, filepath.Join(root, "www", name)))
			}

			t.Setenv(refused, strconv.Itoa(int(errno)))
			s := program.Start(t, "-r", filepath.Join(root, "www"))
			for _, want := range []struct {
				path   string
				status int
				body   string
			}{
				{"/sleep", 200, "slept"},
				{"/a.txt", 200, "a file"},
				{"/in", 200, "a file"},
				{"/sub", 200, "an index"}, // after a redirection
				{"/none", 404, ""},
				{"/out", 404, ""},
				{"/away", 404, ""},
			} {
				resp := must.Get(http.Get("http://" + s.Address + want.path))(t)
				body, err := io.ReadAll(resp.Body)
				resp.Body.Close()
				if err != nil || resp.StatusCode != want.status ||
					want.status == 200 && string(body) != want.body {
					t.Errorf("%s: %s, %q, %v", want.path, resp.Status, body, err)
				}
			}

			c := dial(t, s.Logged(t, `msg=echo address=(\S+)`)[1])
			defer c.Close()
			sent := make([]byte, 4<<20)
			_, _ = rand.NewChaCha8([32]byte{}).Read(sent)
			go func() {
				_, _ = c.Write(sent)
				_ = c.(*net.TCPConn).CloseWrite()
			}()
			if got, err := io.ReadAll(c); err != nil || string(got) != string(sent) {
				t.Errorf("echo of %d bytes: %d, %v", len(sent), len(got), err)
			}
		})
	}
}
