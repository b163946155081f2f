// Package mirror is the setting `mirror` of a site and of a route: another route of the site gets
// copies of its requests, or of a part of them, and nobody gets the answers.
//
//	mirror = { to = "/next", share = 10 }
//
// A copy is served on a green thread of its own, beside the request, which waits for nothing of it.
package mirror

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/base/tags"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/loop"
)

// Settings are the keys of `mirror`.
type Settings struct {
	// To is the path of a route of the site; a copy's path is that of its request behind it.
	To string `toml:"to"`
	// Share is how many requests are copied, in percent.
	Share int `toml:"share" min:"1" max:"100" default:"100"`
	// MaxBodySize is of a body that is copied; a request with a larger one has no copy; -1: so has
	// none with a body.
	MaxBodySize conn.Size `toml:"max_body_size" min:"-1" max:"16MiB" default:"64KiB"`
	// MaxRequests is how many copies may be under way at a time; there are none beyond them.
	MaxRequests int `toml:"max_requests" min:"1" max:"100000" default:"64"`
	// Timeout is for the whole answer to a copy.
	Timeout time.Duration `toml:"timeout" min:"1ms" max:"1h" default:"10s"`
}

// kind is what a mirror counts.
var kind = metrics.Kind{Name: "mirror", Label: "to", Figures: []metrics.Figure{
	active:   {Name: "active", Gauge: true, Help: "Copies of requests that are under way."},
	requests: {Name: "requests", Help: "Copies that were sent."},
	failed: {Name: "failed",
		Help: "Of these, those without an answer in time, or with an error of the server."},
	busy:   {Name: "dropped_busy", Help: "Requests without a copy because of max_requests."},
	bodies: {Name: "dropped_bodies", Help: "Requests without a copy because of their body."},
}}

const (
	active = iota
	requests
	failed
	busy
	bodies
)

// mirror copies requests. All but counts and held stays as New has made it.
type mirror struct {
	set    Settings
	prefix string // to, without a slash at its end
	routes *handlers.SiteRoutes
	counts []atomic.Int64 // of kind
	held   atomic.Int64   // bytes of bodies that are still to come to their end
	log    *slog.Logger
}

// New makes the middleware. Errors are *handlers.KeyError. The handlers may run on any number of
// loops at once.
func New(s Settings, env handlers.Env) (handlers.Middleware, error) {
	s = tags.Or(s, defaults)
	clean, err := http1.CleanPath(nil, []byte(s.To))
	if err != nil || string(clean) != s.To || strings.ContainsAny(s.To, "?#") {
		return nil, handlers.BadKey("to", `expected the path of a route, such as "/mirror", not %q`, s.To)
	}
	a := around.Of(env)
	to := a.Routes.Of(s.To)
	switch {
	case to == nil:
		return nil, handlers.BadKey("to", "the site has no route for %s", s.To)
	case to == a.Route:
		return nil, handlers.BadKey("to", "%s is a path of this route; expected that of another route",
			s.To)
	case a.Route == nil && strings.Trim(to.Prefix, "/") == "" && !to.Exact:
		return nil, handlers.BadKey("to",
			"%s is a path of the route %s, whose requests are copied; expected "+
				"that of a route for copies", s.To, to.Name())
	}
	m := &mirror{set: s, prefix: strings.TrimSuffix(s.To, "/"), routes: a.Routes,
		counts: a.Counts(&kind, s.To),
		log:    env.Log()}
	return func(next conn.Handler) conn.Handler {
		return func(req *conn.Request, resp *conn.Response) int {
			if m.wants(req) {
				m.copy(req)
			}
			return next(req, resp)
		}
	}, nil
}

var defaults = tags.Defaults[Settings]()

// String says in words what becomes of a request.
func (s Settings) String() string {
	s = tags.Or(s, defaults)
	return fmt.Sprintf("%d %% of the requests go to %s, too", s.Share, s.To)
}

// wants reports whether the request is to be copied. Those that the server makes itself are not,
// nor WebSockets, whose frames would not be in the copy.
func (m *mirror) wants(req *conn.Request) bool {
	if m.set.Share < 100 && rand.IntN(100) >= m.set.Share || req.Layer().ServerMade() {
		return false
	}
	if upgrade, ok := req.Layer().HeaderView("Upgrade"); ok && ascii.EqualFold(upgrade, "websocket") {
		return false
	}
	below, ok := bytes.CutPrefix(req.Layer().PathView(), []byte(m.prefix))
	return !ok || len(below) > 0 && below[0] != '/' // a client asks for the route of the copies
}

// copy copies the request, and sees to it that the copy is served.
func (m *mirror) copy(req *conn.Request) {
	length := req.ContentLength()
	if length > int64(max(m.set.MaxBodySize, 0)) || length < 0 && m.set.MaxBodySize < 0 {
		m.counts[bodies].Add(1)
		return
	}
	if m.counts[active].Load() >= int64(m.set.MaxRequests) {
		m.counts[busy].Add(1)
		return
	}
	c := &job{mirror: m, loop: req.Loop(), copy: req.Layer().Copy(m.prefix), length: length}
	switch {
	case length == 0:
		c.start()
	case req.Body().Tee(c.take):
		req.Defer(c.pass)
	default: // a part is no copy
		m.counts[bodies].Add(1)
	}
}

// mostHeld is how many bytes of bodies may be held that have not come to their end. Their requests
// have no place of max_requests, which clients that send slowly would take from all others.
func (m *mirror) mostHeld() int64 { return int64(m.set.MaxRequests) * int64(m.set.MaxBodySize) }

// job is a copy on its way, and the sink of its answer. Until it is started, it belongs to whatever
// reads the request's body, and then to threads of loop.
type job struct {
	*mirror
	loop   *loop.Loop
	copy   conn.Copy
	length int64 // of the body; -1: not known
	body   []byte
	over   bool // it was started, or given up

	status int                    // of the answer
	cut    error                  // why its subrequest had to end
	done   loop.Promise[struct{}] // when that has ended
}

// take takes a piece of the body, or its end.
func (j *job) take(p []byte, whole bool) {
	switch {
	case j.over:
	case whole && j.length >= 0 && int64(len(j.body)) != j.length:
		j.drop(bodies)
	case whole:
		j.start()
	case len(j.body)+len(p) > int(j.set.MaxBodySize):
		j.drop(bodies)
	case j.held.Add(int64(len(p))) > j.mostHeld():
		j.held.Add(-int64(len(p)))
		j.drop(busy)
	default:
		j.body = append(j.body, p...)
		if int64(len(j.body)) == j.length { // its reader may not look for the end
			j.start()
		}
	}
}

// pass gives up what has not begun when the request ends: nobody has read all of its body.
func (j *job) pass() {
	if !j.over {
		j.drop(bodies)
	}
}

// drop counts a copy that there will not be.
func (j *job) drop(why int) {
	j.stopBody()
	j.body = nil
	j.counts[why].Add(1)
}

// stopBody notes that no more of the body is awaited.
func (j *job) stopBody() {
	j.over = true
	j.held.Add(-int64(len(j.body)))
}

// start has the copy served, if there is a place. Any goroutine that owns the job may call it.
func (j *job) start() {
	if j.counts[active].Add(1) > int64(j.set.MaxRequests) {
		j.counts[active].Add(-1)
		j.drop(busy)
		return
	}
	j.stopBody()
	if j.loop.Post(j.send) != nil { // the loop has come to its end
		j.body = nil
		j.counts[failed].Add(1)
		j.counts[active].Add(-1)
	}
}

// send sends the copy, and ends its subrequest when it has taken too long or the server stops.
func (j *job) send() {
	j.counts[requests].Add(1)
	sub := j.copy.Start(j.loop, j.body, j.routes.Serve, j)
	j.loop.Go(func(t *loop.Thread) {
		if n, err := t.AwaitAny(j.set.Timeout, &j.done, t.Loop().Stopped()); n != 0 || err != nil {
			j.cut = cmp.Or(err, errStopped)
			sub.Cancel()
		}
	})
}

// errStopped is the reason of a subrequest that was ended early.
var errStopped = errors.New("mirror: the server stops")

// Inform, Flush and End implement conn.Sink.
func (j *job) Inform(int, []conn.Field) {}
func (j *job) Flush()                   {}
func (j *job) End([]conn.Field, bool)   {}

// Head implements conn.Sink.
func (j *job) Head(h *conn.SentHead) bool {
	j.status = h.Status
	return false
}

// Write implements conn.Sink: an endless answer ends when its time is over.
func (j *job) Write(*loop.Thread, []byte) error { return j.cut }

// Over implements conn.Sink.
func (j *job) Over(err error) {
	if err = cmp.Or(j.cut, err); err != nil {
		j.log.Debug("mirror: no answer to a copy", "to", j.set.To, "error", err)
	}
	if err != nil || j.status >= 500 {
		j.counts[failed].Add(1)
	}
	j.counts[active].Add(-1)
	_ = j.done.Resolve(struct{}{})
}
