package metrics

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// ContentType is that of AppendText.
const ContentType = "text/plain; version=0.0.4; charset=utf-8"

// AppendText appends s in the text format of Prometheus. bounds are those of Route.Times, which
// has one entry more.
//
// The format is so small that this costs less than a library: the one of Prometheus would bring
// protobuf and two more modules into the go.sum of each program that is built with lwango.
//
// All values of labels are names of the configuration, codes and numbers of loops, which clients
// cannot add to. Topics are not named.
func (s *Snapshot) AppendText(b []byte, bounds []time.Duration) []byte {
	t := text{b: b}
	t.family("lwango_build_info", "gauge", "Constant 1; version is that of lwango.")
	t.sample("lwango_build_info", 1, "version", s.Version)
	t.one("lwango_uptime_seconds", "gauge", "Time since the server started.", s.Uptime)

	c := &s.Connections
	t.one("lwango_connections_accepted_total", "counter", "Connections accepted.", float64(c.Accepted))
	t.family("lwango_connections", "gauge", "Open connections by state.")
	for _, st := range []struct {
		name string
		n    int64
	}{{"idle", c.Idle}, {"busy", c.Busy}, {"hijacked", c.Hijacked}, {"lingering", c.Lingering},
		{"refusing", c.Refusing}} {
		t.sample("lwango_connections", float64(st.n), "state", st.name)
	}
	t.one("lwango_tls_handshakes_failed_total", "counter",
		"TLS handshakes that clients have begun, and that have failed.", float64(c.FailedHandshakes))
	t.one("lwango_http2_connections", "gauge", "Open connections that speak HTTP/2.", float64(c.HTTP2))
	t.one("lwango_http2_streams", "gauge", "Streams of HTTP/2: requests, and WebSockets.", float64(c.Streams))
	t.one("lwango_http2_resets_total", "counter",
		"Streams of HTTP/2 that clients have taken back, or made the server reset.", float64(c.Resets))
	s.slots(&t)
	t.one("lwango_requests_started_total", "counter",
		"Requests that have begun, with those that were refused.", float64(s.Requests.Total))
	t.one("lwango_requests_running", "gauge", "Requests that have begun and not ended.",
		float64(s.Requests.Running))
	t.one("lwango_panics_total", "counter", "Panics of handlers and of their green threads.",
		float64(s.Requests.Panics))
	s.routes(&t, bounds)
	s.loops(&t)

	t.family("lwango_upstream_up", "gauge", "1 if requests go to the address, 0 if it does not work.")
	for _, u := range s.Upstreams {
		up := 0.0
		if u.Up {
			up = 1
		}
		t.sample("lwango_upstream_up", up, "site", u.Site, "route", u.Route, "address", u.Address)
	}
	t.family("lwango_upstream_connections", "gauge",
		"Connections to the address, of all routes, by state.")
	for _, u := range s.Upstreams {
		for _, st := range []struct {
			name string
			n    int
		}{{"active", u.Active}, {"idle", u.Idle}} {
			t.sample("lwango_upstream_connections", float64(st.n),
				"site", u.Site, "route", u.Route, "address", u.Address, "state", st.name)
		}
	}
	t.family("lwango_upstream_requests_total", "counter", "Requests sent to the address, of all routes.")
	for _, u := range s.Upstreams {
		t.sample("lwango_upstream_requests_total", float64(u.Requests),
			"site", u.Site, "route", u.Route, "address", u.Address)
	}
	t.family("lwango_upstream_failures_total", "counter", "Requests that the address has failed, by kind.")
	for _, u := range s.Upstreams {
		for _, k := range []struct {
			name string
			n    int64
		}{{"connect", u.Failures.Connect}, {"silent", u.Failures.Silent}, {"status", u.Failures.Status}} {
			t.sample("lwango_upstream_failures_total", float64(k.n),
				"site", u.Site, "route", u.Route, "address", u.Address, "kind", k.name)
		}
	}
	const first = "lwango_upstream_first_byte_seconds"
	t.family(first, "histogram", "Time until the answer of the address begins.")
	for _, u := range s.Upstreams {
		sum := int64(0)
		for i, n := range u.Times {
			sum += n
			le := "+Inf"
			if i < UpstreamBounds {
				le = strconv.FormatFloat((FirstBound << i).Seconds(), 'g', -1, 64)
			}
			t.sample(first+"_bucket", float64(sum), "site", u.Site, "route", u.Route, "address", u.Address, "le", le)
		}
		t.sample(first+"_sum", u.Spent, "site", u.Site, "route", u.Route, "address", u.Address)
		t.sample(first+"_count", float64(sum), "site", u.Site, "route", u.Route, "address", u.Address)
	}
	t.family("lwango_upstream_waiting", "gauge", "Requests that wait for a connection.")
	for _, u := range s.Upstreams {
		t.sample("lwango_upstream_waiting", float64(u.Waiting),
			"site", u.Site, "route", u.Route, "address", u.Address)
	}
	for _, f := range []struct {
		name, kind, help string
		value            func(*Stream) int64
	}{
		{"connections", "gauge", "Open connections of the [[stream]].", func(r *Stream) int64 { return r.Open }},
		{"connections_accepted_total", "counter", "Connections accepted.",
			func(r *Stream) int64 { return r.Accepted }},
		{"connections_refused_total", "counter", "Of these, those that were one too many.",
			func(r *Stream) int64 { return r.Refused }},
		{"connections_failed_total", "counter", "Of these, those that have found no upstream.",
			func(r *Stream) int64 { return r.Failed }},
		{"received_bytes_total", "counter", "Bytes of clients that were passed on.",
			func(r *Stream) int64 { return r.Got }},
		{"sent_bytes_total", "counter", "Bytes that clients were sent.", func(r *Stream) int64 { return r.Sent }},
	} {
		t.family("lwango_stream_"+f.name, f.kind, f.help)
		for i := range s.Streams {
			t.sample("lwango_stream_"+f.name, float64(f.value(&s.Streams[i])), "address", s.Streams[i].Address)
		}
	}
	s.handlers(&t)
	t.family("lwango_certificate_not_after_seconds", "gauge",
		"UNIX time at which the certificate expires, 0 if it is still to be obtained.")
	for _, c := range s.Certificates {
		until := 0.0
		if !c.Until.IsZero() {
			until = float64(c.Until.Unix())
		}
		t.sample("lwango_certificate_not_after_seconds", until, "file", c.File)
	}
	s.cache(&t)
	t.one("lwango_topics", "gauge", "Topics with subscribers or history.", float64(s.Topics.Count))
	t.one("lwango_topic_subscribers", "gauge", "Subscriptions of all topics.",
		float64(s.Topics.Subscribers))
	t.one("lwango_topic_bytes", "gauge", "Bytes of messages that are kept.", float64(s.Topics.Bytes))
	t.one("lwango_spool_bytes", "gauge", "Bytes in temporary files.", float64(s.SpoolBytes))
	t.one("lwango_heap_bytes", "gauge", "Bytes of objects on the heap.", float64(s.HeapBytes))
	t.one("lwango_goroutines", "gauge", "Goroutines, coroutines included.", float64(s.Goroutines))
	return t.b
}

func (s *Snapshot) slots(t *text) {
	t.family("lwango_slots_taken", "gauge", "Handshakes and checks of passwords that compute.")
	t.sample("lwango_slots_taken", float64(s.Handshakes.Taken), "of", "handshakes")
	t.sample("lwango_slots_taken", float64(s.Passwords.Taken), "of", "passwords")
	t.family("lwango_slots_waiting", "gauge", "Those that wait for a slot.")
	t.sample("lwango_slots_waiting", float64(s.Handshakes.Waiting), "of", "handshakes")
	t.sample("lwango_slots_waiting", float64(s.Passwords.Waiting), "of", "passwords")
}

var classes = [6]string{"left", "1xx", "2xx", "3xx", "4xx", "5xx"}

func (s *Snapshot) routes(t *text, bounds []time.Duration) {
	t.family("lwango_requests_total", "counter",
		"Requests that have ended, by route and class of status; left: the client did not wait.")
	for i := range s.Routes {
		for class, n := range s.Routes[i].Status {
			t.of(&s.Routes[i], "lwango_requests_total", float64(n), "class", classes[class])
		}
	}
	for _, f := range []struct {
		name, help string
		value      func(*Route) int64
	}{
		{"lwango_response_bytes_total", "Bytes of the bodies of answers.",
			func(r *Route) int64 { return r.Sent }},
		{"lwango_request_bytes_total", "Bytes of the bodies of requests.",
			func(r *Route) int64 { return r.Got }},
	} {
		t.family(f.name, "counter", f.help)
		for i := range s.Routes {
			t.of(&s.Routes[i], f.name, float64(f.value(&s.Routes[i])))
		}
	}
	const name = "lwango_handler_seconds"
	t.family(name, "histogram", "Time of handlers, with their waits.")
	for i := range s.Routes {
		r, sum := &s.Routes[i], int64(0)
		for j, bound := range bounds {
			sum += r.Times[j]
			t.of(r, name+"_bucket", float64(sum), "le",
				strconv.FormatFloat(bound.Seconds(), 'g', -1, 64))
		}
		t.of(r, name+"_bucket", float64(r.Calls()), "le", "+Inf")
		t.of(r, name+"_sum", r.Spent)
		t.of(r, name+"_count", float64(r.Calls()))
	}
}

func (s *Snapshot) cache(t *text) {
	t.family("lwango_cache_requests_total", "counter", "Requests by what the cache has done with them.")
	for i := range s.Routes {
		r := &s.Routes[i]
		for _, use := range slices.Sorted(maps.Keys(r.Cache)) {
			t.of(r, "lwango_cache_requests_total", float64(r.Cache[use]), "use", use)
		}
	}
	c := s.Cache
	if c == nil {
		return
	}
	t.family("lwango_cache_objects", "gauge", "Answers that are kept.")
	t.sample("lwango_cache_objects", float64(c.MemoryObjects), "in", "memory")
	t.sample("lwango_cache_objects", float64(c.DiskObjects), "in", "disk")
	t.family("lwango_cache_bytes", "gauge", "Bytes that they take.")
	t.sample("lwango_cache_bytes", float64(c.MemoryBytes), "in", "memory")
	t.sample("lwango_cache_bytes", float64(c.DiskBytes), "in", "disk")
	t.one("lwango_cache_filling", "gauge", "Answers on their way into the cache.", float64(c.Filling))
	for _, f := range []struct {
		name, help string
		n          uint64
	}{
		{"fills", "Answers that were kept.", c.Fills},
		{"dropped", "Answers that were not kept, once they came.", c.Dropped},
		{"evicted", "Answers that had to make room.", c.Evicted},
		{"purged", "Answers that were purged.", c.Purged},
		{"damaged_files", "Files that were damaged, and are dropped.", c.Damaged},
		{"disk_failures", "Reads and writes of the disk that have failed.", c.Failed},
	} {
		t.one("lwango_cache_"+f.name+"_total", "counter", f.help, float64(f.n))
	}
}

func (s *Snapshot) loops(t *text) {
	for _, f := range []struct {
		name, kind, help string
		value            func(*Loop) float64
	}{
		{"busy_seconds_total", "counter", "Time that the loop has not slept.",
			func(l *Loop) float64 { return l.Busy }},
		{"wakeups_total", "counter", "Times that the loop has slept for an event.",
			func(l *Loop) float64 { return float64(l.Wakeup) }},
		{"epoll_waits_total", "counter", "Calls of epoll_wait.",
			func(l *Loop) float64 { return float64(l.Waits) }},
		{"epoll_ctls_total", "counter", "Calls of epoll_ctl.",
			func(l *Loop) float64 { return float64(l.Ctls) }},
		{"events_total", "counter", "Events of epoll.",
			func(l *Loop) float64 { return float64(l.Events) }},
		{"resumes_total", "counter", "Times that a thread has become the running one.",
			func(l *Loop) float64 { return float64(l.Resume) }},
		{"no_worker_total", "counter", "Waits that have ended before a worker was free.",
			func(l *Loop) float64 { return float64(l.NoWorker) }},
		{"threads", "gauge", "Green threads, with those of idle connections.",
			func(l *Loop) float64 { return float64(l.Threads) }},
		{"coroutines", "gauge", "Coroutines that run or wait.",
			func(l *Loop) float64 { return float64(l.Coroutines) }},
		{"parked_coroutines", "gauge", "Coroutines that are kept for the next thread.",
			func(l *Loop) float64 { return float64(l.Parked) }},
		{"timers", "gauge", "Pending timers.", func(l *Loop) float64 { return float64(l.Timers) }},
		{"workers", "gauge", "Functions that run off the loop.",
			func(l *Loop) float64 { return float64(l.Workers) }},
		{"workers_queued", "gauge", "Functions that wait for a worker.",
			func(l *Loop) float64 { return float64(l.Queued) }},
	} {
		t.family("lwango_loop_"+f.name, f.kind, f.help)
		for i := range s.Loops {
			if l := &s.Loops[i]; l.Answered {
				t.sample("lwango_loop_"+f.name, f.value(l), "loop", strconv.Itoa(l.Loop))
			}
		}
	}
	t.family("lwango_loop_yields_total", "counter", "What threads have yielded, by code.")
	for i := range s.Loops {
		l := &s.Loops[i]
		for _, code := range slices.Sorted(maps.Keys(l.Yields)) {
			t.sample("lwango_loop_yields_total", float64(l.Yields[code]),
				"loop", strconv.Itoa(l.Loop), "code", code)
		}
	}
	t.family("lwango_loop_stalls_total", "counter", "Times that the watchdog found the loop held up.")
	for _, l := range s.Loops {
		t.sample("lwango_loop_stalls_total", float64(l.Stalls), "loop", strconv.Itoa(l.Loop))
	}
	t.family("lwango_loop_answered", "gauge", "0 if the loop was held up when it was asked.")
	for _, l := range s.Loops {
		answered := 0.0
		if l.Answered {
			answered = 1
		}
		t.sample("lwango_loop_answered", answered, "loop", strconv.Itoa(l.Loop))
	}
}

// text writes samples.
type text struct{ b []byte }

func (t *text) family(name, kind, help string) {
	t.b = append(t.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

func (t *text) one(name, kind, help string, v float64) {
	t.family(name, kind, help)
	t.sample(name, v)
}

// of is sample for a route.
func (t *text) of(r *Route, name string, v float64, labels ...string) {
	t.sample(name, v, append([]string{"site", r.Site, "route", r.Route}, labels...)...)
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sample writes one line; labels are names, each with its value behind it.
func (t *text) sample(name string, v float64, labels ...string) {
	t.b = append(t.b, name...)
	for i := 0; i < len(labels); i += 2 {
		t.b = append(t.b, "{,"[min(i, 1)])
		t.b = append(t.b, labels[i]+`="`+escape.Replace(strings.ToValidUTF8(labels[i+1], "?"))+`"`...)
	}
	if len(labels) > 0 {
		t.b = append(t.b, '}')
	}
	t.b = append(t.b, ' ')
	t.b = strconv.AppendFloat(t.b, v, 'g', -1, 64)
	t.b = append(t.b, '\n')
}
