package rules

import (
	"errors"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/names"
	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/loop"
)

// exists looks in a folder for the file of a path.
type exists struct {
	folder *sysio.Folder
	kinds  []string // "file", "folder", "no"
}

// slowDisk is how long a request waits for a disk.
const slowDisk = 30 * time.Second

func (c *exists) key() string   { return "exists" }
func (c *exists) wants() string { return strings.Join(c.kinds, " or ") }

func (c *exists) found(q Asked, _ []byte) string {
	kind, err := c.kind(q)
	if err != nil {
		return err.Error()
	}
	if kind == "no" {
		return "there is none"
	}
	return "it is a " + kind
}

func (c *exists) hold(q Asked, _ []byte) (bool, error) {
	kind, err := c.kind(q)
	return err == nil && slices.Contains(c.kinds, kind), err
}

// kind returns what the path below the route names in the folder, by the names and links that
// serve_files knows: "no" also for what is hidden, for a link that leads out, and for a file whose
// path has a slash at its end.
func (c *exists) kind(q Asked) (string, error) {
	path := below(q, q.PathView())
	if names.Hidden(path) {
		return "no", nil
	}
	name := strings.TrimSuffix(string(path[1:]), "/")
	if name == "" {
		return "folder", nil
	}
	mode, err := c.mode(q, name)
	switch {
	case sysio.Absent(err):
		return "no", nil
	case err != nil:
		return "", err
	}
	switch mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return "folder", nil
	case unix.S_IFREG:
		if path[len(path)-1] != '/' {
			return "file", nil
		}
	}
	return "no", nil
}

// mode asks the kernel. If that has to ask a disk, a worker waits for it, and not the loop.
func (c *exists) mode(q Asked, name string) (uint32, error) {
	mode, err, known := c.folder.CachedMode(name)
	if known {
		return mode, err
	}
	req, ok := q.(conn.RequestLayer)
	if !ok {
		return c.folder.Mode(name)
	}
	// A client that has closed its sending half wants its answer all the same.
	defer req.KeepWaiting(req.KeepWaiting(true))
	return loop.Call(req.Thread, func() (uint32, error) { return c.folder.Mode(name) }).
		Await(req.Thread, slowDisk)
}

// waited reports that no worker was free, or that the disk has not answered in time.
func waited(err error) bool {
	return errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, loop.ErrNoWorker)
}
