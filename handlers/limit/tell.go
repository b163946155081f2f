package limit

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/modules/around"
)

// kindOf is what a limit of requests counts.
var kindOf = metrics.Kind{Name: "limit", Label: "limit", Figures: []metrics.Figure{
	refusals: {Name: "refused", Help: "Requests that got 429, or would have without dry_run."},
	delayed:  {Name: "delayed", Help: "Requests that have waited for their turn."},
	waiting:  {Name: "waiting", Gauge: true, Help: "Requests that wait for their turn."},
}}

const (
	refusals = iota
	delayed
	waiting
)

// teller tells what a limit does.
type teller struct {
	log    *slog.Logger
	counts []atomic.Int64
	dry    bool
	logged atomic.Int64 // since epoch: when a dry run was logged last
	silent atomic.Int64 // refusals since then

	// Of the fields of draft-ietf-httpapi-ratelimit-headers-10; "": they are not sent.
	policy, name string
	each, burst  int64 // nanoseconds for a request, and for as many as may come at once
}

func (l *limiter) setTeller(s *Settings, env handlers.Env) {
	t := &l.tell
	t.dry, t.log = s.DryRun, env.Log()
	if l.requests != nil || l.atWork != nil {
		t.counts = around.Of(env).Counts(&kindOf, limitName(s))
	}
	if !s.Fields {
		return
	}
	name := limitName(s)
	if printable(env.Prefix) && env.Prefix != "" {
		name = env.Prefix + " " + name // a site may have another limit of that rate
	}
	t.name = `"` + name + `"`
	t.policy = fmt.Sprintf("%s;q=%d;w=%d", t.name, s.Requests.Count, s.Requests.Per/time.Second)
	t.each = s.Requests.each()
	t.burst = t.each * int64(burstOf(s))
}

// limitName tells a limit of a route from the others.
func limitName(s *Settings) string {
	switch {
	case s.Shared != "" && printable(s.Shared):
		return s.Shared
	case s.Requests.Count > 0:
		return s.Requests.String()
	}
	return "connections"
}

// printable reports whether s can stand in a string of a structured field as it is (RFC 9651
// section 3.3.3).
func printable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool {
		return r < ' ' || r > '~' || r == '"' || r == '\\'
	})
}

// fields gives the answer the fields about the client's limit: how many requests it may send at
// once, and when all of them will be there again.
func (t *teller) fields(resp *conn.Response, is turn) {
	if t.policy == "" {
		return
	}
	left := max((t.burst-is.owed)/t.each, 0)
	said := t.name + ";r=" + strconv.FormatInt(left, 10) + ";t=" +
		strconv.FormatInt(seconds(is.owed), 10)
	resp.Layer().BeforeHead(func(_ *conn.Request, resp *conn.Response, _ int) {
		resp.Header().Add("RateLimit-Policy", t.policy)
		resp.Header().Add("RateLimit", said)
	})
}

// refused counts a request that the limit of that key is for, and reports whether it gets 429. A
// dry run is logged once a second at most.
func (t *teller) refused(req *conn.Request, key string) bool {
	t.counts[refusals].Add(1)
	if !t.dry {
		return true
	}
	now, last := int64(req.Loop().Time().Sub(epoch)), t.logged.Load()
	if last != 0 && now-last < int64(time.Second) || !t.logged.CompareAndSwap(last, max(now, 1)) {
		t.silent.Add(1)
		return false
	}
	t.log.Info("limit: a dry run lets a request pass", "key", key, "client",
		req.RemoteAddr().Addr(), "request_id", req.ID(), "target", req.Target(),
		"others_not_logged", t.silent.Swap(0))
	return false
}
