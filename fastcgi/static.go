package fastcgi

import (
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/lwango/lwango/handlers"
)

// accel is the folder of files that scripts may have sent in their place.
type accel struct {
	dir  string
	root *os.Root
}

func (m *module) openAccel() error {
	dir := m.set.AccelRoot
	if dir == "" {
		return nil
	}
	if !filepath.IsAbs(dir) {
		dir = filepath.Join(m.env.Dir, dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return &handlers.KeyError{Key: "accel_root", Err: fmt.Errorf("cannot open the folder: %w", err)}
	}
	m.accel = &accel{filepath.Clean(dir), root}
	return nil
}

// name is the file's below the folder: of X-Accel-Redirect, which is a path as in a URL, or of X-Sendfile, which is one
// of this machine.
func (a *accel) name(redirect, sendfile string) (string, bool) {
	if redirect != "" {
		redirect, _, _ = strings.Cut(redirect, "?")
		p, err := url.PathUnescape(redirect)
		if err != nil {
			return "", false
		}
		name := strings.TrimPrefix(path.Clean("/"+p), "/")
		return name, filepath.IsLocal(name)
	}
	name, err := filepath.Rel(a.dir, sendfile)
	return name, err == nil && filepath.IsAbs(sendfile) && filepath.IsLocal(name)
}

// sendAccel sends the file that the script names, with the script's header fields.
func (c *call) sendAccel() int {
	name, ok := c.accel.name(c.file, c.path)
	if !ok {
		return c.noAccel(os.ErrNotExist)
	}
	f, err := c.accel.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return c.noAccel(err)
	}
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		f.Close()
		return c.noAccel(os.ErrNotExist)
	}
	if !c.resp.Header().Has("Content-Type") {
		if t := mime.TypeByExtension(path.Ext(name)); t != "" {
			c.resp.Header().Set("Content-Type", t)
		}
	}
	c.resp.SetBodyFile(f, 0, info.Size())
	return c.status
}

func (c *call) noAccel(err error) int {
	c.log.Error("fastcgi: file of X-Accel-Redirect or X-Sendfile not sent", "request", c.req.ID(),
		"script", c.target.Name, "file", c.file+c.path, "error", err)
	c.resp.Clear()
	return http.StatusNotFound
}
