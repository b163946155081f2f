package servefiles

import (
	"errors"
	"net/http"
	"net/url"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/modules/around"
)

// Accel is the folder with the files that an application may name in X-Accel-Redirect or
// X-Sendfile instead of sending a body. It may be used on any number of loops at once.
type Accel struct {
	dir    string
	sender *Sender // nil: there is no folder

	routes *handlers.SiteRoutes // that X-Accel-Redirect leads to; nil: it names a file of the folder
}

// OpenAccel opens the folder that the key accel_root names, if root is not "". With redirect
// X-Accel-Redirect leads to another route of the site, as the key accel_redirect says. If there is
// neither, the Accel takes nothing. The error is a *handlers.KeyError.
func OpenAccel(root string, redirect bool, env handlers.Env) (*Accel, error) {
	a := new(Accel)
	if redirect {
		a.routes = around.Of(env).Routes
	}
	if root == "" {
		return a, nil
	}
	dir := confpath.Join(env.Dir, root)
	sender, err := NewSender(Settings{Path: dir}, env)
	if err != nil {
		return nil, &handlers.KeyError{Key: "accel_root", Err: errors.Unwrap(err)}
	}
	a.dir, a.sender = filepath.Clean(dir), sender
	return a, nil
}

// Handles reports whether a heeds what an application names in X-Accel-Redirect and X-Sendfile; ""
// is none.
func (a *Accel) Handles(redirect, sendfile string) bool {
	return redirect != "" && (a.routes != nil || a.sender != nil) ||
		sendfile != "" && a.sender != nil
}

// Send answers with the file that the application names in the value of X-Accel-Redirect, or of
// X-Sendfile if redirect is "", or lets the route answer that X-Accel-Redirect leads to. The status
// is that of Sender.Send; an error says why neither could be.
func (a *Accel) Send(
	req *conn.Request, resp *conn.Response, redirect, sendfile string, status int,
) (_ int, err error) {
	req.Layer().Elsewhere()
	if redirect != "" && a.routes != nil {
		return a.forward(req, resp, redirect)
	}
	name, ok := a.name(redirect, sendfile)
	if !ok {
		return http.StatusNotFound, errOutside
	}
	status, sent := a.sender.Send(req, resp, name, status)
	if !sent {
		err = errNotSent
	}
	return status, err
}

var (
	errOutside = errors.New("accel_root has no such path")
	errNotSent = errors.New("the file cannot be sent")
)

// passedFields are the fields of the application's answer that come before those of the route's, as
// in nginx.
var passedFields = []string{"Content-Type", "Content-Disposition", "Accept-Ranges", "Cache-Control",
	"Expires"}

// forward lets a route of the site answer. What is around that route is asked as for a request of
// the client's, with its limit and its auth.
func (a *Accel) forward(req *conn.Request, resp *conn.Response, target string) (int, error) {
	var fields []conn.Field
	for name, value := range resp.Header().All() {
		if ascii.EqualFold(name, "Set-Cookie") ||
			slices.ContainsFunc(passedFields, func(k string) bool { return ascii.EqualFold(name, k) }) {
			fields = append(fields, conn.Field{Name: name, Value: value})
		}
	}
	resp.Layer().Clear()
	resp.Layer().BeforeHead(func(_ *conn.Request, resp *conn.Response, status int) {
		h := resp.Header()
		stays := func(f conn.Field) bool { return fits(f.Name, status, h.Get("Content-Type")) }
		left := slices.DeleteFunc(fields, func(f conn.Field) bool { return !stays(f) })
		for _, f := range left {
			if !ascii.EqualFold(f.Name, "Set-Cookie") {
				h.Del(f.Name)
			}
		}
		for _, f := range left {
			h.Add(f.Name, f.Value)
		}
	})
	target = strings.ReplaceAll(target, " ", "%20") // as nginx takes it
	status, err := req.Layer().Forward(target, resp, a.routes.Serve)
	if err != nil {
		return http.StatusInternalServerError, err
	}
	return status, nil
}

// fits reports whether a field of the application's belongs to an answer of the route with that
// status and type. What the application says of content is true only of the content it has meant.
func fits(name string, status int, contentType string) bool {
	switch {
	case ascii.EqualFold(name, "Set-Cookie"):
		return true
	case status == http.StatusNotModified:
		return ascii.EqualFold(name, "Cache-Control") || ascii.EqualFold(name, "Expires")
	case status > 299:
		return false
	}
	// This one says where parts end, which have types of their own.
	return !ascii.EqualFold(name, "Content-Type") ||
		!strings.HasPrefix(contentType, "multipart/byteranges")
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
