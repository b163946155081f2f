package server

import (
	"cmp"
	"context"
	"os"
	"runtime/metrics"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/tls/handshake"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"

	"github.com/lwango/lwango/internal/base/asynclog"
	status "github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/process/config"
)

// observed is what handlers on any goroutine see of a server: its unchanging parts, and the present
// configuration. They see nothing else, since a reload changes the rest.
type observed struct {
	loops    []*loop.Loop
	conn     *conn.Server
	watchdog *loop.Watchdog
	cache    *cache.Store // nil: none
	topics   *pubsub.Hub  // those at the start; nil: none
	start    time.Time
	counters *config.Counters
	// connStats has the counts of each loop as of its last answer, which the loop stores itself. So
	// the sums do not fall while a blocked loop does not answer.
	connStats []atomic.Pointer[conn.Stats]
	now       atomic.Pointer[inForce]

	history   status.History
	recording sync.WaitGroup // the goroutine that fills it
	endRecord func()         // nil: there is none

	process  *process
	access   *accesslog.Logs
	logs     *asynclog.Log // nil: the program's logger is another one
	reload   atomic.Pointer[status.Reload]
	draining *drainReports
}

// inForce is what handlers see of the present configuration. It does not change.
type inForce struct {
	upstreams    []config.Upstreams
	streams      func() []status.Stream
	certificates []status.Certificate
}

// observe shows the server to the handlers of c. It is called before c is in force.
func (s *server) observe(c *config.Config) {
	if s.observed == nil {
		s.observed = &observed{loops: s.loops, conn: s.conn, watchdog: s.watchdog, cache: s.source.Cache,
			topics: s.source.Topics, start: time.Now(), counters: s.source.Counters,
			connStats: make([]atomic.Pointer[conn.Stats], len(s.loops)), process: s.process,
			access: s.access, logs: asynclog.Of(s.log), draining: s.drainReports}
		s.observed.reload.Store(&status.Reload{Configured: time.Now()})
	}
	c.Observe(s.observed.snapshot)
	s.observed.now.Store(&inForce{c.Upstreams, c.StreamReports(), c.Certs().Certificates()})
}

// certify updates what observe shows when certificates of c, which is in force, have changed.
func (o *observed) certify(c *config.Config) {
	next := *o.now.Load()
	next.certificates = c.Certs().Certificates()
	o.now.Store(&next)
}

// record begins the history once a configuration in force counts requests. The server's goroutine
// calls it.
func (o *observed) record(c *config.Config) {
	if !c.Counted || o.endRecord != nil {
		return
	}
	var ctx context.Context
	ctx, o.endRecord = context.WithCancel(context.Background())
	o.recording.Go(func() {
		o.history.Record(ctx, o.counts)
	})
}

// close ends the history.
func (o *observed) close() {
	if o.endRecord != nil {
		o.endRecord()
		o.recording.Wait()
	}
}

// snapshot asks all loops for their counts. Any goroutine but a loop's may call it.
func (s *observed) snapshot() (*status.Snapshot, error) {
	out := s.counts(context.Background())
	_, latest := s.watchdog.Stalls()
	out.Stalls = []status.Stall{}
	for _, st := range latest {
		out.Stalls = append(out.Stalls, status.Stall{Loop: st.Loop, Since: st.Since,
			Held: st.Held.Seconds(), Place: st.Place})
	}
	out.Certificates = s.now.Load().certificates
	out.Topics.Largest = []status.Topic{}
	if s.topics != nil {
		t := &out.Topics
		n, subscribers, bytes, largest := s.topics.Counts(20)
		t.Count, t.Subscribers, t.Bytes = n, subscribers, bytes
		for _, l := range largest {
			t.Largest = append(t.Largest, status.Topic(l))
		}
	}
	s.history.Attach(out)
	out.Warn()
	return out, nil
}

// answerWait is how long counts waits for the loops.
const answerWait = time.Second

// counts returns the part of a snapshot that the history keeps. It asks all loops, and waits
// answerWait for their answers.
func (s *observed) counts(ctx context.Context) *status.Snapshot {
	ctx, cancel := context.WithTimeout(ctx, answerWait)
	defer cancel()
	answers := askLoops(ctx, s.loops, func(i int) loop.Stats {
		t := s.conn.Stats(s.loops[i])
		s.connStats[i].Store(&t)
		return s.loops[i].Stats()
	})
	out := s.common()
	stalls, _ := s.watchdog.Stalls()
	for i, a := range answers {
		l := status.Loop{Loop: i, Stalls: stalls[i]}
		if a.err == nil {
			fill(&l, &a.value)
		}
		out.Loops = append(out.Loops, l)
	}
	s.sum(out)
	return out
}

// answer is what a loop has answered.
type answer[T any] struct {
	value T
	err   error // net.ErrClosed: the loop has ended; the context's error: it is blocked
}

// askLoops calls f on each loop, with the loop's index, and waits for all of them until ctx ends.
// It asks the loops at the same time, so a blocked one does not delay the answers of the others.
func askLoops[T any](ctx context.Context, loops []*loop.Loop, f func(i int) T) []answer[T] {
	answers, values := make([]answer[T], len(loops)), make([]chan T, len(loops))
	for i, l := range loops {
		got := make(chan T, 1)
		values[i], answers[i].err = got, l.Post(func() {
			if ctx.Err() == nil { // otherwise nothing waits for the answer any more
				got <- f(i)
			}
		})
	}
	for i := range answers {
		a := &answers[i]
		if a.err != nil {
			continue
		}
		select {
		case a.value = <-values[i]:
		case <-ctx.Done():
			select {
			case a.value = <-values[i]: // it has answered while a loop before it was waited for
			default:
				a.err = ctx.Err()
			}
		}
	}
	return answers
}

// common returns the part of a snapshot that needs no loop.
func (s *observed) common() *status.Snapshot {
	now := time.Now()
	out := &status.Snapshot{Version: moduleVersion(), PID: os.Getpid(), Time: now,
		Uptime: now.Sub(s.start).Seconds(), SpoolBytes: s.conn.Spooled(),
		Upstreams: []status.Upstream{}, Streams: []status.Stream{},
		Handlers: s.counters.Counted(), Routes: []status.Route{}}
	s.self(out)
	memory := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/sched/goroutines:goroutines"}}
	metrics.Read(memory)
	out.Handshakes.Taken, out.Handshakes.Waiting = handshake.Slots.Stats()
	out.Passwords.Taken, out.Passwords.Waiting = auth.Waiting()
	out.HeapBytes, out.Goroutines = int64(memory[0].Value.Uint64()), int(memory[1].Value.Uint64())
	seen := map[[3]string]bool{}
	in := s.now.Load()
	for _, r := range in.upstreams {
		for _, u := range r.Report() {
			u.Site, u.Route = r.Site, r.Route
			id := [3]string{u.Site, u.Route, u.Address}
			if !seen[id] {
				seen[id] = true
				out.Upstreams = append(out.Upstreams, u)
			}
		}
	}
	out.Streams = append(out.Streams, in.streams()...)
	if s.cache != nil {
		if n, ok := s.cache.Stats(); ok {
			out.Cache = new(status.Cache(n))
		}
	}
	return out
}

// self sets what out says of the process and of the server as such.
func (s *observed) self(out *status.Snapshot) {
	out.Process, out.Reload = s.process.read(), *s.reload.Load()
	out.Logs.Access = s.access.Lost()
	if s.logs != nil {
		out.Logs.Error = s.logs.Lost()
	}
	out.Refusals = s.conn.Refusals()
	out.Draining = s.draining.all()
}

// noteReload notes how a reload has ended. The server's goroutine calls it.
func (s *observed) noteReload(err error) {
	r := *s.reload.Load()
	r.Last = time.Now()
	if r.Error = ""; err != nil {
		r.Error = err.Error()
		r.Refused++
	} else {
		r.Configured = r.Last
		r.Done++
	}
	s.reload.Store(&r)
}

// codeName names a status in counts of answers.
func codeName(status int) string {
	if status == 0 {
		return "other"
	}
	return strconv.Itoa(status)
}

func fill(l *status.Loop, c *loop.Stats) {
	l.Answered = true
	l.Age, l.Busy = c.Age.Seconds(), (c.Age - c.Asleep).Seconds()
	l.Waits, l.Wakeup, l.Ctls, l.Events, l.Resume = c.Waits, c.Wakeups, c.Ctls, c.Events, c.Resumes
	l.Threads, l.Coroutines, l.Parked, l.Timers = c.Threads, c.Working, c.Parked, c.Timers
	l.Workers, l.Queued, l.NoWorker = c.Calls, c.Queued, c.NoWorker
	l.Yields = map[string]int64{}
	for code, n := range c.Yields {
		if code := coro.Code(code); code != coro.Resume { // the loop's own step
			l.Yields[code.String()] = n
		}
	}
}

// sum adds up what the loops have counted.
func (s *observed) sum(g *status.Snapshot) {
	names := s.counters.Names()
	routes := make([]status.Route, len(names))
	c, r := &g.Connections, &g.Requests
	for i := range s.connStats {
		t := s.connStats[i].Load()
		if t == nil { // the loop has not answered yet
			continue
		}
		c.Accepted += t.Accepted
		c.Hijacked += t.Hijacked
		c.Lingering += t.Lingering
		c.FailedHandshakes += t.FailedHandshakes
		c.HTTP2 += t.Sessions
		c.Streams += t.Streams
		c.Resets += t.Resets
		c.Busy += t.AtWork - t.Streams + t.Tunnels // streams and tunnels count as their connections
		r.Total += t.Requests
		r.Running += t.Requests - t.Ended
		for i, p := range t.Routes[:min(len(t.Routes), len(routes))] {
			to := &routes[i]
			to.Site, to.Route = names[i].Site, names[i].Route
			for class, n := range p.Status {
				to.Status[class] += n
			}
			for i, n := range p.Codes {
				if n > 0 {
					if to.Codes == nil {
						to.Codes = make(map[string]int64)
					}
					to.Codes[codeName(p.StatusAt(i))] += n
				}
			}
			to.Sent += p.Sent
			to.Got += p.Got
			to.Spent += p.Spent.Seconds()
			for use, n := range p.Cache {
				if name := strings.ToLower(conn.CacheUse(use).String()); n > 0 && name != "" {
					if to.Cache == nil {
						to.Cache = make(map[string]int64)
					}
					to.Cache[name] += n
				}
			}
			if to.Times == nil {
				to.Times = make([]int64, len(p.Times))
			}
			for j, n := range p.Times {
				to.Times[j] += n
			}
		}
	}
	r.Panics = s.conn.Panicked()
	for _, l := range s.loops {
		r.Panics += l.Panicked()
	}
	c.Busy, c.Refusing = max(c.Busy+r.Running, 0), int64(s.conn.Refusing())
	c.Idle = max(int64(s.conn.Active())-c.Busy-c.Hijacked-c.Lingering, 0)
	c.Hijacked += int64(s.conn.Detached()) // these are not among the active ones
	c.Open = c.Idle + c.Busy + c.Hijacked + c.Lingering
	for i := range routes {
		if to := &routes[i]; to.Requests() > 0 {
			g.Routes = append(g.Routes, *to)
			r.Errors += to.Status[5]
			r.Sent += to.Sent
			r.Got += to.Got
		}
	}
	slices.SortFunc(g.Routes, func(a, b status.Route) int {
		return cmp.Or(cmp.Compare(a.Site, b.Site), cmp.Compare(a.Route, b.Route))
	})
}
