// Package errorpages is the key `error_pages` of a site or a route: pages of its own for errors.
//
//	error_pages = { 404 = "errors/404.html", 405 = "=200 /index.html" }
package errorpages

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/wire/http1"
)

// key is the key whose value New takes.
const key = "error_pages"

// maxLoops is how many loops a server may have.
const maxLoops = 1024

// Pages are the error pages of a site or a route. They may be used on any number of loops at once.
type Pages struct {
	log   *slog.Logger
	pages map[int]*page
	next  conn.Handler // what chooses the route of a page; set at the start
}

// page is the page for one status.
type page struct {
	status int                // of the answers that it is for
	sent   int                // with which it goes out
	path   string             // of a route; empty: it is a file
	file   *servefiles.Sender // of the folder
	name   string             // in the folder

	missing atomic.Bool // the last attempt has failed, and that was logged
}

// New reads the pages: for each status, from 400 to 599, a file, relative to the folder of the
// configuration, or the path of a route, which begins with a slash. "=200 " in front of either
// gives the page that status. It returns nil if there are none. Errors are *handlers.KeyError.
func New(pages map[string]string, env handlers.Env) (*Pages, error) {
	if len(pages) == 0 {
		return nil, nil
	}
	p := &Pages{log: env.Log(), pages: make(map[int]*page, len(pages))}
	for text, to := range pages {
		status, err := strconv.Atoi(text)
		if err != nil || status < 400 || status > 599 || len(text) != 3 {
			return nil, handlers.BadKey(key, "expected a status from 400 to 599, not %q", text)
		}
		if p.pages[status], err = newPage(status, to, env); err != nil {
			return nil, err
		}
	}
	return p, nil
}

func newPage(status int, to string, env handlers.Env) (*page, error) {
	pg := &page{status: status, sent: status}
	if strings.HasPrefix(to, "=") {
		var text string
		text, to = split(to)
		n, err := strconv.Atoi(text)
		if err != nil || n < 200 || n > 599 || n == http.StatusNoContent ||
			n == http.StatusResetContent || n == http.StatusNotModified {
			return nil, handlers.BadKey(key, "%d: expected = and a status from 200 to 599 whose answers "+
				"have a body, as in \"=200 /index.html\", not %q", status, "="+text)
		}
		pg.sent = n
	}
	if strings.HasPrefix(to, "/") {
		path, err := http1.CleanPath(nil, []byte(to))
		if err != nil || strings.ContainsAny(to, "?#") {
			return nil, handlers.BadKey(key,
				"%d: expected the path of a route, without a query, not %q", status, to)
		}
		if !strings.HasPrefix(string(path), strings.TrimSuffix(env.Prefix, "/")+"/") {
			return nil, handlers.BadKey(key,
				"%d: expected a path below the route's prefix, %s, or a file, not %q", status,
				env.Prefix, to)
		}
		pg.path = string(path)
		return pg, nil
	}
	file := confpath.Join(env.Dir, to)
	pg.name = filepath.Base(file)
	if to == "" || strings.HasSuffix(to, "/") || pg.name == "." || pg.name == ".." {
		return nil, handlers.BadKey(key,
			"%d: expected a file, or the path of a route, which begins with a slash, not %q", status,
			to)
	}
	var err error
	// Each loop has a place for the page, of which it keeps no more than one.
	pg.file, err = servefiles.NewSender(servefiles.Settings{Path: filepath.Dir(file),
		FollowSymlinks: true, OpenFiles: maxLoops}, env)
	if err != nil {
		if ke, ok := err.(*handlers.KeyError); ok {
			err = ke.Err
		}
		return nil, handlers.BadKey(key, "%d: %w", status, err)
	}
	return pg, nil
}

// split returns the status, without =, that stands in front of a page, and the page.
func split(to string) (status, page string) {
	if rest, ok := strings.CutPrefix(to, "="); ok {
		status, page, _ = strings.Cut(rest, " ")
		return status, strings.TrimLeft(page, " ")
	}
	return "", to
}

// KeptFiles returns how many a loop keeps open for the pages, if there is room: those that are
// files may be too long to be kept in memory.
func KeptFiles(pages map[string]string) (n int) {
	for _, to := range pages {
		if _, to = split(to); !strings.HasPrefix(to, "/") {
			n++
		}
	}
	return n
}

// Statuses returns those that have a page in one of the tables; nil: none has.
func Statuses(tables ...map[string]string) (all map[int]bool) {
	for _, pages := range tables {
		for text := range pages {
			if all == nil {
				all = make(map[int]bool)
			}
			if status, err := strconv.Atoi(text); err == nil { // New refuses others
				all[status] = true
			}
		}
	}
	return all
}

// Outer is the outermost middleware of the site or the route: what lies within gets its pages,
// whatever refuses a request.
func (p *Pages) Outer(next conn.Handler) conn.Handler {
	answer := p.answer
	return func(req *conn.Request, resp *conn.Response) int {
		resp.Layer().OnError(answer)
		return next(req, resp)
	}
}

// Inner is the innermost middleware. A page that is a path comes from what lies within it: a page
// for those that must log in must not need a login.
func (p *Pages) Inner(next conn.Handler) conn.Handler {
	p.next = next
	return next
}

// answer is a conn.ErrorPage.
func (p *Pages) answer(req *conn.Request, resp *conn.Response, status int) bool {
	pg := p.pages[status]
	if pg == nil {
		return false
	}
	h := resp.Header()
	for _, name := range ofBody { // they are about the body that the page replaces
		h.Del(name)
	}
	before := fields(h)
	resp.Layer().PageStatus(pg.sent)
	// A page may be streamed, so its fields have to be looked at right before the head goes out.
	resp.Layer().BeforeHead(func(_ *conn.Request, resp *conn.Response, _ int) {
		merge(resp.Header(), before)
	})
	if got := pg.make(req, resp, p.next); got != http.StatusOK {
		if !pg.missing.Swap(true) {
			p.log.Error("error_pages: page missing, the built-in one is sent", "status", status,
				"page", pg.path+pg.name, "got", got)
		}
		return false // and the server drops the hook
	}
	if pg.missing.Load() {
		pg.missing.Store(false)
	}
	return true
}

func fields(h *conn.Header) (all []conn.Field) {
	for name, value := range h.All() {
		all = append(all, conn.Field{Name: name, Value: value})
	}
	return all
}

// merge gives the answer the fields that it had before its page was made, and of the page's those
// that it had not: what an answer says of itself, such as its WWW-Authenticate, stays.
func merge(h *conn.Header, before []conn.Field) {
	page := fields(h)
	for _, f := range page {
		h.Del(f.Name)
	}
	for _, f := range before {
		h.Add(f.Name, f.Value)
	}
	for _, f := range page {
		left := slices.ContainsFunc(dropFields, func(name string) bool {
			return ascii.EqualFold(f.Name, name)
		}) || slices.ContainsFunc(before, func(b conn.Field) bool {
			return ascii.EqualFold(f.Name, b.Name) && (f.Value == b.Value || !isList(f.Name))
		})
		if !left {
			h.Add(f.Name, f.Value)
		}
	}
}

// isList reports whether a field of the answer and one of the page are both right. The answer may
// depend on one thing and the page on another; and each cookie stands for itself.
func isList(name string) bool {
	return ascii.EqualFold(name, "Vary") || ascii.EqualFold(name, "Set-Cookie")
}

var (
	// ofBody describe the body that a page replaces.
	ofBody = []string{"Content-Type", "Content-Length", "Content-Encoding", "Content-Language",
		"Content-Disposition", "Content-Location", "ETag", "Last-Modified", "Accept-Ranges"}

	// dropFields are what a page's handler says of a file. The client has not asked for that file,
	// and would take what it says for that of the one it has asked for.
	dropFields = []string{"ETag", "Last-Modified", "Accept-Ranges", "Content-Location",
		"Cache-Control", "Expires"}
)

// make sets the page, and returns the status with which it comes: 200 if there is one.
func (pg *page) make(req *conn.Request, resp *conn.Response, next conn.Handler) int {
	if pg.file != nil {
		// Never with 200, by which the client could have a range of the page.
		status, sent := pg.file.Send(req, resp, pg.name, pg.status)
		if sent {
			return http.StatusOK
		}
		return status
	}
	resp.Layer().DropBody()
	status := req.Layer().Instead(pg.path, resp, next)
	if status == 0 || resp.HeadSent() {
		return http.StatusOK
	}
	if status != http.StatusOK {
		resp.Layer().DropBody()
	}
	return status
}
