package servefiles

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/confpath"
)

// Accel is the folder with the files that an application may name in X-Accel-Redirect or
// X-Sendfile instead of sending a body. It may be used on any number of loops at once.
type Accel struct {
	dir    string
	sender *Sender
}

// OpenAccel opens the folder that the key accel_root names, and returns nil if root is "". The error
// is a *handlers.KeyError.
func OpenAccel(root string, env handlers.Env) (*Accel, error) {
	if root == "" {
		return nil, nil
	}
	dir := confpath.Join(env.Dir, root)
	sender, err := NewSender(Settings{Path: dir}, env)
	if err != nil {
		return nil, &handlers.KeyError{Key: "accel_root", Err: errors.Unwrap(err)}
	}
	return &Accel{filepath.Clean(dir), sender}, nil
}

// Send answers with the file that the application names in the value of X-Accel-Redirect, or of
// X-Sendfile if redirect is "". Status and results are those of Sender.Send.
func (a *Accel) Send(
	req *conn.Request, resp *conn.Response, redirect, sendfile string, status int,
) (_ int, sent bool) {
	name, ok := a.name(redirect, sendfile)
	if !ok {
		return http.StatusNotFound, false
	}
	return a.sender.Send(req, resp, name, status)
}

// name returns the name of a file below the folder. X-Accel-Redirect has it as a path of a URL,
// X-Sendfile as a path of this machine.
func (a *Accel) name(redirect, sendfile string) (string, bool) {
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
