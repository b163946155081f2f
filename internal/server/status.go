package server

import (
	"cmp"
	"os"
	"runtime/metrics"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/loop"

	status "github.com/lwango/lwango/internal/metrics"
)

// routeName is how a route is called where its requests are counted.
type routeName struct{ site, route string }

// places numbers the routes of a program, for conn.Request.SetPlace. A route keeps its number over
// reloads, so that its counters go on. Any goroutine may call the methods.
type places struct {
	mu      sync.Mutex
	numbers map[routeName]uint32
	names   []routeName // by number
}

// maxPlaces bounds what is counted where reloads name ever new routes; otherPlace is the number of
// those beyond it.
const (
	maxPlaces  = 1000
	otherPlace = 1
)

// number returns that of a route. A nil p has no numbers but 0.
func (p *places) number(n routeName) uint32 {
	if p == nil {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.numbers == nil {
		p.numbers = map[routeName]uint32{}
		p.names = []routeName{{}, otherPlace: {site: "(other)"}}
	}
	i, ok := p.numbers[n]
	if !ok {
		if i = uint32(len(p.names)); len(p.names) >= maxPlaces {
			return otherPlace
		}
		p.numbers[n], p.names = i, append(p.names, n)
	}
	return i
}

// all returns the names by number.
func (p *places) all() []routeName {
	if p == nil {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clip(p.names)
}

// numberRoutes gives the routes of a site their numbers, and returns that of the site itself.
func (p *places) numberRoutes(hosts []string, routes []handlers.Route) uint32 {
	name := siteName(hosts)
	for i := range routes {
		routes[i].Place = p.number(routeName{name, routes[i].Prefix})
	}
	return p.number(routeName{site: name})
}

// siteName is how a site with these hosts is called where its requests are counted.
func siteName(hosts []string) string {
	if len(hosts) == 0 {
		return "*"
	}
	return hosts[0]
}

// observer gathers what a server says of itself. It is set when the server starts; then any thread
// may use it.
type observer struct {
	of atomic.Pointer[observed] // nil: nothing runs yet
}

type observed struct {
	*server
	start  time.Time
	places *places
	// upstreams are those of the configuration in force.
	upstreams    atomic.Pointer[[]reporter]
	certificates atomic.Pointer[[]status.Certificate]
}

// reporter tells of the upstreams of a route.
type reporter struct {
	routeName
	report func() []status.Upstream
}

// observe lets the handlers of c observe the server. It is called before c is in force.
func (s *server) observe(c *config) {
	if s.observed == nil {
		s.observed = &observed{server: s, start: time.Now(), places: s.source.Places}
		s.topics = s.source.Topics
	}
	c.observer.of.Store(s.observed)
	s.observed.upstreams.Store(&c.upstreams)
	s.observed.certificates.Store(c.certificates())
}

// answerWait is how long a look at the server waits for its loops.
const answerWait = time.Second

// snapshot asks all loops, and waits on t for those that answer within answerWait.
func (o *observer) snapshot(t *loop.Thread) (*status.Snapshot, error) {
	s := o.of.Load()
	if s == nil {
		return nil, ErrStopped
	}
	// A client that has ended its sending half still reads.
	defer t.KeepWaiting(t.KeepWaiting(true))
	type counts struct {
		loop  loop.Stats
		tally conn.Tally
	}
	answers := make([]*loop.Promise[counts], len(s.loops))
	for i, l := range s.loops {
		p := new(loop.Promise[counts])
		answers[i] = p
		if l.Post(func() { p.Resolve(counts{l.Stats(), s.conn.Tally(l)}) }) != nil {
			p.Reject(ErrStopped)
		}
	}
	out := s.common()
	until := time.Now().Add(answerWait)
	stalls, latest := s.watchdog.Stalls()
	var tallies []conn.Tally
	for i, p := range answers {
		c, err := p.Await(t, max(time.Until(until), 0))
		l := status.Loop{Loop: i, Stalls: stalls[i]}
		if err == nil {
			fill(&l, &c.loop)
			tallies = append(tallies, c.tally)
		}
		out.Loops = append(out.Loops, l)
	}
	out.sum(s, tallies)
	for _, st := range latest {
		out.Stalls = append(out.Stalls, status.Stall{Loop: st.Loop, Since: st.Since,
			Held: st.Held.Seconds(), Place: st.Place})
	}
	return &out.Snapshot, nil
}

type gathered struct{ status.Snapshot }

// common is what is known without the loops.
func (s *observed) common() *gathered {
	now := time.Now()
	out := &gathered{status.Snapshot{Version: moduleVersion(), PID: os.Getpid(), Time: now,
		Uptime: now.Sub(s.start).Seconds(), SpoolBytes: s.conn.Spooled(),
		Upstreams: []status.Upstream{}, Stalls: []status.Stall{}, Routes: []status.Route{},
		Topics: status.Topics{Largest: []status.Topic{}}}}
	memory := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/sched/goroutines:goroutines"}}
	metrics.Read(memory)
	out.HeapBytes, out.Goroutines = int64(memory[0].Value.Uint64()), int(memory[1].Value.Uint64())
	seen := map[status.Upstream]bool{}
	if all := s.upstreams.Load(); all != nil {
		for _, r := range *all {
			for _, u := range r.report() {
				u.Site, u.Route = r.site, r.route
				id := status.Upstream{Site: u.Site, Route: u.Route, Address: u.Address}
				if !seen[id] {
					seen[id] = true
					out.Upstreams = append(out.Upstreams, u)
				}
			}
		}
	}
	out.Certificates = *s.certificates.Load()
	if s.topics != nil {
		t := &out.Topics
		n, subscribers, bytes, largest := s.topics.Counts(20)
		t.Count, t.Subscribers, t.Bytes = n, subscribers, bytes
		for _, l := range largest {
			t.Largest = append(t.Largest, status.Topic(l))
		}
	}
	return out
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
func (g *gathered) sum(s *observed, tallies []conn.Tally) {
	names := s.places.all()
	routes := make([]status.Route, len(names))
	c, r := &g.Connections, &g.Requests
	for _, t := range tallies {
		c.Accepted += t.Accepted
		c.Hijacked += t.Hijacked
		c.Lingering += t.Lingering
		r.Total += t.Requests
		r.Running += t.Requests - t.Ended
		for i, p := range t.Places[:min(len(t.Places), len(routes))] {
			to := &routes[i]
			to.Site, to.Route = names[i].site, names[i].route
			for class, n := range p.Status {
				to.Status[class] += n
			}
			to.Sent += p.Sent
			to.Got += p.Got
			to.Spent += p.Spent.Seconds()
			if to.Times == nil {
				to.Times = make([]int64, len(p.Times))
			}
			for j, n := range p.Times {
				to.Times[j] += n
			}
		}
	}
	c.Busy, c.Refusing = r.Running, int64(s.conn.Refusing())
	c.Idle = max(int64(s.conn.Active())-c.Busy-c.Hijacked-c.Lingering, 0)
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
