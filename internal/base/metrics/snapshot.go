// Package metrics is what a running server says of itself: a Snapshot, which package
// handlers/status serves and lwango top reads, and its text for Prometheus. It knows nothing of how
// it is gathered.
//
//	snapshot.go    what a server says of itself at one time
//	history.go     its last five minutes, and what it had counted a minute ago
//	warnings.go    what somebody has to look at now
//	kind.go        what modules and layers count of themselves
//	prometheus.go  the text for Prometheus
package metrics

import (
	"math/bits"
	"time"
)

// Snapshot is the state of a server at one time. Counters go on from the start of the server; a
// reload does not reset them. Of a loop that does not answer, Connections, Requests and Routes have
// what it had counted at its last answer. The JSON has these names in lower case with underscores.
type Snapshot struct {
	Version string    `json:"version"`
	PID     int       `json:"pid"`
	Time    time.Time `json:"time"`
	Uptime  float64   `json:"uptime_seconds"`

	Connections  Connections   `json:"connections"`
	Requests     Requests      `json:"requests"`
	Loops        []Loop        `json:"loops"`
	Routes       []Route       `json:"routes"`
	Upstreams    []Upstream    `json:"upstreams"`
	Streams      []Stream      `json:"streams"`
	Handlers     []Counted     `json:"handlers"` // that count something of their own
	Topics       Topics        `json:"topics"`
	Certificates []Certificate `json:"certificates"`
	Stalls       []Stall       `json:"stalls"` // the latest 16 at most, oldest first

	Cache *Cache `json:"cache,omitempty"` // nil: no route keeps answers

	Process  Process          `json:"process"`
	Reload   Reload           `json:"reload"`
	Logs     Logs             `json:"logs"`
	Refusals map[string]int64 `json:"refusals"` // connections and requests, by what has refused them
	Draining []Draining       `json:"draining"` // processes that this one has replaced, oldest first

	Handshakes Slots `json:"handshakes"` // of TLS
	Passwords  Slots `json:"passwords"`  // that are verified

	SpoolBytes int64 `json:"spool_bytes"` // of all temporary files of requests and answers
	HeapBytes  int64 `json:"heap_bytes"`  // of objects, live or not collected yet
	Goroutines int   `json:"goroutines"`

	// MinuteAgo is what the same server had counted a minute ago, or less if it has not run that
	// long: the last minute is the difference. It has no certificates, topics and stalls.
	MinuteAgo *Snapshot `json:"minute_ago,omitempty"`
	Recent    *Recent   `json:"recent,omitempty"`
	Warnings  []string  `json:"warnings"` // sentences
}

// Process is what the kernel says of the process. Numbers that it does not say are 0.
type Process struct {
	Started   time.Time `json:"started"`
	CPU       float64   `json:"cpu_seconds"` // of all threads, in user and kernel mode
	Resident  int64     `json:"resident_bytes"`
	OpenFiles int64     `json:"open_files"` // descriptors
	MaxFiles  int64     `json:"max_files"`  // their limit
}

// Reload is how the last reload has ended.
type Reload struct {
	// Configured is when the configuration in force was read: at the start, or by a reload.
	Configured time.Time `json:"configured"`
	Last       time.Time `json:"last,omitzero"`   // zero: there was none
	Error      string    `json:"error,omitempty"` // why it was refused; empty: it was not
	Done       int64     `json:"done"`            // reloads
	Refused    int64     `json:"refused"`
}

// Logs are lines that were lost since the start: there was no room, a disk was full, or there were
// too many of the kind.
type Logs struct {
	Access int64 `json:"access_lines_lost"` // of all access logs
	Error  int64 `json:"error_lines_lost"`  // of the server's own log
}

// Draining is a process that an upgrade has replaced, and that still serves connections. It is as
// of a second or two ago.
type Draining struct {
	PID         int       `json:"pid"`
	Since       time.Time `json:"since"`
	Until       time.Time `json:"until"` // the end of `drain`
	Connections int       `json:"connections"`
}

// Cache is the store of what routes keep.
type Cache struct {
	MemoryObjects int64  `json:"memory_objects"`
	MemoryBytes   int64  `json:"memory_bytes"`
	DiskObjects   int64  `json:"disk_objects"`
	DiskBytes     int64  `json:"disk_bytes"`
	Filling       int64  `json:"filling"` // answers on their way
	Fills         uint64 `json:"fills"`   // that were kept
	Dropped       uint64 `json:"dropped"` // that were not
	Evicted       uint64 `json:"evicted"`
	Purged        uint64 `json:"purged"`
	Damaged       uint64 `json:"damaged"` // files
	Failed        uint64 `json:"failed"`  // reads and writes of the disk
}

// Connections are by state.
type Connections struct {
	Accepted int64 `json:"accepted"` // since the start

	// Now. Open is the sum of Idle, Busy, Hijacked and Lingering.
	Open      int64 `json:"open"`
	Idle      int64 `json:"idle"`      // between requests, or before the first
	Busy      int64 `json:"busy"`      // in a request
	Hijacked  int64 `json:"hijacked"`  // WebSockets, tunnels; of an http.Handler until it returns
	Lingering int64 `json:"lingering"` // answered, and about to be closed
	Refusing  int64 `json:"refusing"`  // beyond max_connections: they get 503

	FailedHandshakes int64 `json:"failed_handshakes"` // of TLS, since the start

	HTTP2   int64 `json:"http2"`         // of those that are open
	Streams int64 `json:"http2_streams"` // of these; requests, WebSockets
	Resets  int64 `json:"http2_resets"`  // streams that clients have taken back, since the start
}

// Slots are those of computations that clients can ask for, and that take turns. All servers of a
// process share them.
type Slots struct {
	Taken   int `json:"taken"` // by what computes
	Waiting int `json:"waiting"`
}

// Requests are those of all routes.
type Requests struct {
	Total   int64 `json:"total"` // that have begun, with those that were refused
	Running int64 `json:"running"`
	Errors  int64 `json:"errors"` // answers of 500 and above
	Panics  int64 `json:"panics"` // of handlers, and of green threads that they have started
	Sent    int64 `json:"sent_bytes"`
	Got     int64 `json:"received_bytes"`
}

// Loop is one loop. A loop that a handler holds up does not answer: then only Loop and Stalls are
// set.
type Loop struct {
	Loop     int   `json:"loop"`
	Answered bool  `json:"answered"`
	Stalls   int64 `json:"stalls"` // times that the watchdog has found it held up

	Age    float64 `json:"age_seconds"`
	Busy   float64 `json:"busy_seconds"` // of Age, while it was not asleep
	Waits  int64   `json:"epoll_waits"`
	Wakeup int64   `json:"wakeups"` // of the waits, those that have slept
	Ctls   int64   `json:"epoll_ctls"`
	Events int64   `json:"events"`
	Resume int64   `json:"resumes"`

	Yields map[string]int64 `json:"yields"` // by code

	// Now.
	Threads    int `json:"threads"`
	Coroutines int `json:"coroutines"` // with a body: they run, or wait
	Parked     int `json:"parked_coroutines"`
	Timers     int `json:"timers"`
	Workers    int `json:"workers"`        // functions that run off the loop
	Queued     int `json:"workers_queued"` // functions that wait for a worker

	NoWorker int64 `json:"no_worker"` // waits that have ended without one
}

// Route is the requests of one route of one site. Both are empty for requests that no site has
// answered, and the route is empty for those that the site has answered itself. Site is "*" for the
// default site, and "(other)" stands for all routes beyond the first thousand.
type Route struct {
	Site  string `json:"site"`
	Route string `json:"route"`

	Status [6]int64 `json:"status"` // by the first digit; 0: the client left before an answer
	// Codes are the answers by status; "other" are those of unusual ones.
	Codes map[string]int64 `json:"codes"`
	Sent  int64            `json:"sent_bytes"`
	Got   int64            `json:"received_bytes"`
	Spent float64          `json:"handler_seconds"`
	Times []int64          `json:"handler_times"` // by Bounds; the last one: longer than all of these

	// Cache is how many requests a cache has answered, passed on, ...: by conn.CacheUse in small
	// letters; without a cache there are none.
	Cache map[string]int64 `json:"cache,omitempty"`
}

// Requests is how many there were.
func (r *Route) Requests() (n int64) {
	for _, c := range r.Status {
		n += c
	}
	return n
}

// Calls is how many handlers have run to their end.
func (r *Route) Calls() (n int64) {
	for _, c := range r.Times {
		n += c
	}
	return n
}

// Stream is a [[stream]].
type Stream struct {
	Address  string `json:"address"`
	Open     int64  `json:"open"`     // connections, now
	Accepted int64  `json:"accepted"` // since the start, with the following two
	Refused  int64  `json:"refused"`  // there were too many, of the client or in all
	// for which there was no upstream, or which did not say which one
	Failed int64 `json:"failed"`
	Got    int64 `json:"received_bytes"`
	Sent   int64 `json:"sent_bytes"`
}

// Certificate is one of a listener's.
type Certificate struct {
	File  string    `json:"file"`
	Names []string  `json:"names"`
	Until time.Time `json:"not_after,omitzero"` // zero: it is still to be obtained

	WarnFrom time.Time `json:"warn_from,omitzero"` // when warnings of its end begin
}

// Upstream is one address of a route.
type Upstream struct {
	Site    string `json:"site"`
	Route   string `json:"route"`
	Address string `json:"address"`
	Backup  bool   `json:"backup"`
	Up      bool   `json:"up"`              // false: checks have failed, or requests lately
	State   string `json:"state,omitempty"` // "drain" or "down": an operator has said so

	// Of the address, whichever routes use it.
	Active  int `json:"active"`
	Idle    int `json:"idle"`
	Waiting int `json:"waiting"` // requests that wait for a connection

	// Since the address is known, attempts in vain included.
	Requests int64    `json:"requests"`
	Failures Failures `json:"failures"`
	Spent    float64  `json:"first_byte_seconds"` // from the slot to the first byte of the answer
	Times    []int64  `json:"first_byte_times"`   // by TimeBounds; the last one: longer than all
}

// Failures are those of an upstream, by kind.
type Failures struct {
	Connect int64 `json:"connect"` // no connection
	Silent  int64 `json:"silent"`  // cut, or stood still, before a byte of the answer
	Status  int64 `json:"status"`  // one of fail_status, or of retry
}

// The bounds of Route.Times and Upstream.Times: FirstBound, and each twice the one before. The last
// one is 16.8 s.
const (
	TimeBounds = 19
	FirstBound = 64 * time.Microsecond
)

// Bucket returns the index in Times for d: that of the first bound that is at least d, or
// TimeBounds.
func Bucket(d time.Duration) int {
	return min(bits.Len64(uint64(max(d-1, 0))/uint64(FirstBound)), TimeBounds)
}

// Upstreams are those of a handler. Any goroutine may call the methods at any time.
type Upstreams interface {
	// Report tells of each.
	Report() []Upstream
	// SetState sets the state of one, of UpstreamStates, and reports whether there is such a
	// one. States returns those that are not up, by name; Inherit takes those of another process,
	// whether there are such ones yet or not.
	SetState(name, state string) bool
	States() map[string]string
	Inherit(states map[string]string)
}

// Shown is the state of an upstream for people, one of shownStates: what an operator has said comes
// before what checks and requests have found.
func (u *Upstream) Shown() string {
	switch {
	case u.State == "drain":
		return "drained"
	case u.State == "down":
		return "disabled"
	case !u.Up:
		return "failed"
	}
	return "up"
}

var shownStates = []string{"up", "failed", "drained", "disabled"}

// UpstreamStates are what an operator can say of an upstream: requests go there; only those of
// clients that come back to it; none.
var UpstreamStates = []string{"up", "drain", "down"}

// Topics are those of package pubsub. Their names are the program's, so there may be any number,
// and only those with most subscribers are named.
type Topics struct {
	Count       int     `json:"count"`
	Subscribers int     `json:"subscribers"`
	Bytes       int64   `json:"bytes"`
	Largest     []Topic `json:"largest"` // 20 at most
}

// Topic is one of them.
type Topic struct {
	Name        string `json:"name"`
	Subscribers int    `json:"subscribers"`
	Messages    int    `json:"messages"` // that are kept
	Bytes       int    `json:"bytes"`
}

// Stall is what the watchdog has seen of a loop that was held up.
type Stall struct {
	Loop  int       `json:"loop"`
	Since time.Time `json:"since"`
	Held  float64   `json:"held_seconds"`
	Place string    `json:"place"`
}
