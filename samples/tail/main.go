// Tail sends what is appended to a file, as it is appended, like `tail -n 0 -f`.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/loop"
	"golang.org/x/sys/unix"
)

func main() {
	path := flag.String("file", "", "`FILE` to follow")
	lwango.ParseFlags()
	if *path == "" {
		fmt.Fprintln(os.Stderr, "tail: -file is missing; -h shows all flags")
		os.Exit(2)
	}
	lwango.Handle("/tail", func(req *lwango.Request, resp *lwango.Response) int {
		f, err := open(*path)
		if errors.Is(err, fs.ErrNotExist) {
			return 404
		}
		if err != nil {
			return resp.Error(503, err)
		}
		req.Defer(func() { f.close(req.Thread) })
		resp.Header().Set("Content-Type", "text/plain; charset=utf-8")
		resp.Header().Set("Cache-Control", "no-store")
		if req.Method() == "HEAD" { // its body would never end, and never be sent
			return 200
		}
		if err := f.follow(req.Thread, resp); err != nil {
			slog.Warn("file is not followed any more", "error", err)
			resp.Abort()
		}
		return 200
	})
	lwango.Main()
}

// followed is a file, and the inotify descriptor that tells of its changes (inotify(7)).
type followed struct {
	*os.File
	offset  int64 // of what is to be sent next
	changes int
}

// open opens the regular file at path, to be sent from its present end on.
func open(path string) (*followed, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|unix.O_NONBLOCK, 0) // a FIFO would hold up the loop
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fs.ErrNotExist
	}
	changes := -1
	if err == nil {
		changes, err = watch(path)
	}
	if err != nil {
		file.Close()
		return nil, err
	}
	return &followed{file, info.Size(), changes}, nil
}

// watch makes an inotify descriptor that can be read when the file at path has changed in size or
// in name.
func watch(path string) (fd int, err error) {
	fd, err = unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("inotify_init1", err)
	}
	// IN_ATTRIB stands for the removal of a file that is still open: it has one link less.
	const events = unix.IN_MODIFY | unix.IN_ATTRIB | unix.IN_MOVE_SELF
	if _, err = unix.InotifyAddWatch(fd, path, events); err != nil {
		unix.Close(fd)
		return -1, os.NewSyscallError("inotify_add_watch", err)
	}
	return fd, nil
}

func (f *followed) close(t *loop.Thread) {
	f.Close()
	_ = t.CloseFD(f.changes) // and not unix.Close: the loop knows the descriptor
}

// follow sends what is appended until the client leaves, the server stops, or the file has lost its
// name. The error is that of a read.
func (f *followed) follow(t *loop.Thread, resp *lwango.Response) error {
	changed := loop.Readable(f.changes)
	buf := make([]byte, 4096) // also for events, of which one takes 272 bytes at most
	for {
		named := f.named() // before the last bytes are read
		if err := f.send(t, resp, buf); err != nil {
			return err
		}
		if resp.Flush() != nil || !named {
			return nil
		}
		if i, err := t.AwaitAny(-1, t.Loop().Stopped(), changed); i != 1 || err != nil {
			return nil
		}
		// The events are dropped: it is enough that there were some.
		if _, err := t.ReadFD(-1, f.changes, buf); err != nil {
			return err
		}
	}
}

// send sends what has been appended, unless the server stops meanwhile: a client may be far behind.
// The error is that of a read. If the client has failed, the next Flush in follow fails as well.
func (f *followed) send(t *loop.Thread, resp *lwango.Response, buf []byte) error {
	if info, err := f.Stat(); err == nil && info.Size() < f.offset {
		f.offset = 0 // the file was truncated, and begins anew
	}
	for !t.Loop().Stopping() {
		n, err := f.ReadAt(buf, f.offset)
		f.offset += int64(n)
		if _, err := resp.Write(buf[:n]); err != nil {
			return nil
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// named reports whether the file still has the name under which it was opened.
func (f *followed) named() bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(f.Name())
	return err == nil && os.SameFile(mine, there)
}
