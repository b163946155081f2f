package fastcgi

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/confpath"
)

// accel is the folder with the files that a script may name instead of sending a body.
type accel struct {
	dir    string
	sender *servefiles.Sender
}

func (m *module) openAccel() error {
	if m.set.AccelRoot == "" {
		return nil
	}
	dir := confpath.Join(m.env.Dir, m.set.AccelRoot)
	sender, err := servefiles.NewSender(servefiles.Settings{Path: dir}, m.env)
	if err != nil {
		return &handlers.KeyError{Key: "accel_root", Err: errors.Unwrap(err)}
	}
	m.accel = &accel{filepath.Clean(dir), sender}
	return nil
}

// name returns the name of a file below the folder. X-Accel-Redirect has it as a path of a URL,
// X-Sendfile as a path of this machine.
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
	status, sent := http.StatusNotFound, false
	if name, ok := c.m.accel.name(c.answer.file, c.answer.path); ok {
		status, sent = c.m.accel.sender.Send(c.req, c.resp, name, c.answer.status)
	}
	if !sent {
		c.m.log.Error("fastcgi: file of X-Accel-Redirect or X-Sendfile not sent",
			"request_id", c.req.ID(), "script", c.target.Name,
			"file", c.answer.file+c.answer.path, "status", status)
		c.resp.Clear()
	}
	return status
}
