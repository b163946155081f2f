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
	writeAll(&t, "lwango_", []Snapshot{*s}, func(s *Snapshot) ([]string, []figure) {
		return nil, s.figures()
	})
	s.routes(&t, bounds)
	s.loops(&t)
	s.upstreams(&t)
	writeAll(&t, "lwango_stream_", s.Streams, func(r *Stream) ([]string, []figure) {
		return []string{"address", r.Address}, []figure{
			{"connections", "gauge", "Open connections of the [[stream]].", float64(r.Open), nil},
			{"connections_accepted_total", "counter", "Connections accepted.", float64(r.Accepted), nil},
			{"connections_refused_total", "counter", "Of these, those that were one too many.",
				float64(r.Refused), nil},
			{"connections_failed_total", "counter", "Of these, those that have found no upstream.",
				float64(r.Failed), nil},
			{"received_bytes_total", "counter", "Bytes of clients that were passed on.", float64(r.Got),
				nil},
			{"sent_bytes_total", "counter", "Bytes that clients were sent.", float64(r.Sent), nil},
		}
	})
	s.handlers(&t)
	s.process(&t)
	writeAll(&t, "lwango_certificate_", s.Certificates, func(c *Certificate) ([]string, []figure) {
		until := 0.0
		if !c.Until.IsZero() {
			until = float64(c.Until.Unix())
		}
		return []string{"file", c.File}, []figure{{"not_after_seconds", "gauge",
			"UNIX time at which the certificate expires, 0 if it is still to be obtained.", until, nil}}
	})
	s.cache(&t)
	return t.b
}

// figures are those of the whole server.
func (s *Snapshot) figures() []figure {
	c := &s.Connections
	return []figure{
		{"build_info", "gauge", "Constant 1; version is that of lwango.", 1,
			[]string{"version", s.Version}},
		{"uptime_seconds", "gauge", "Time since the server started.", s.Uptime, nil},
		{"connections_accepted_total", "counter", "Connections accepted.", float64(c.Accepted), nil},
		{"connections", "gauge", "Open connections by state.", float64(c.Idle),
			[]string{"state", "idle"}},
		{"connections", "", "", float64(c.Busy), []string{"state", "busy"}},
		{"connections", "", "", float64(c.Hijacked), []string{"state", "hijacked"}},
		{"connections", "", "", float64(c.Lingering), []string{"state", "lingering"}},
		{"connections", "", "", float64(c.Refusing), []string{"state", "refusing"}},
		{"tls_handshakes_failed_total", "counter",
			"TLS handshakes that clients have begun, and that have failed.", float64(c.FailedHandshakes),
			nil},
		{"http2_connections", "gauge", "Open connections that speak HTTP/2.", float64(c.HTTP2), nil},
		{"http2_streams", "gauge", "Streams of HTTP/2: requests, and WebSockets.", float64(c.Streams),
			nil},
		{"http2_resets_total", "counter",
			"Streams of HTTP/2 that clients have taken back, or made the server reset.", float64(c.Resets),
			nil},
		{"slots_taken", "gauge", "Handshakes and checks of passwords that compute.",
			float64(s.Handshakes.Taken), []string{"of", "handshakes"}},
		{"slots_taken", "", "", float64(s.Passwords.Taken), []string{"of", "passwords"}},
		{"slots_waiting", "gauge", "Those that wait for a slot.",
			float64(s.Handshakes.Waiting), []string{"of", "handshakes"}},
		{"slots_waiting", "", "", float64(s.Passwords.Waiting), []string{"of", "passwords"}},
		{"requests_started_total", "counter", "Requests that have begun, with those that were refused.",
			float64(s.Requests.Total), nil},
		{"requests_running", "gauge", "Requests that have begun and not ended.",
			float64(s.Requests.Running), nil},
		{"panics_total", "counter", "Panics of handlers and of their green threads.",
			float64(s.Requests.Panics), nil},
		{"topics", "gauge", "Topics with subscribers or history.", float64(s.Topics.Count), nil},
		{"topic_subscribers", "gauge", "Subscriptions of all topics.", float64(s.Topics.Subscribers),
			nil},
		{"topic_bytes", "gauge", "Bytes of messages that are kept.", float64(s.Topics.Bytes), nil},
		{"spool_bytes", "gauge", "Bytes in temporary files.", float64(s.SpoolBytes), nil},
		{"heap_bytes", "gauge", "Bytes of objects on the heap.", float64(s.HeapBytes), nil},
		{"goroutines", "gauge", "Goroutines, coroutines included.", float64(s.Goroutines), nil},
	}
}

func (s *Snapshot) upstreams(t *text) {
	labels := func(u *Upstream) []string {
		return []string{"site", u.Site, "route", u.Route, "address", u.Address}
	}
	writeAll(t, "lwango_upstream_", s.Upstreams, func(u *Upstream) ([]string, []figure) {
		all := []figure{{"up", "gauge",
			"1 if requests go to the address, 0 if it does not work, or an operator " +
				"has drained or disabled it.", flag(u.Up && u.State == ""), nil}}
		for i, state := range shownStates {
			f := figure{"state", "", "", flag(u.Shown() == state), []string{"state", state}}
			if i == 0 {
				f.kind, f.help = "gauge", "1 for the state of the address, 0 for the others."
			}
			all = append(all, f)
		}
		return labels(u), append(all, []figure{
			{"connections", "gauge", "Connections to the address, of all routes, by state.",
				float64(u.Active), []string{"state", "active"}},
			{"connections", "", "", float64(u.Idle), []string{"state", "idle"}},
			{"requests_total", "counter", "Requests sent to the address, of all routes.",
				float64(u.Requests), nil},
			{"failures_total", "counter", "Requests that the address has failed, by kind.",
				float64(u.Failures.Connect), []string{"kind", "connect"}},
			{"failures_total", "", "", float64(u.Failures.Silent), []string{"kind", "silent"}},
			{"failures_total", "", "", float64(u.Failures.Status), []string{"kind", "status"}},
			{"waiting", "gauge", "Requests that wait for a connection.", float64(u.Waiting), nil},
		}...)
	})
	var bounds []time.Duration
	for i := range TimeBounds {
		bounds = append(bounds, FirstBound<<i)
	}
	const first = "lwango_upstream_first_byte_seconds"
	t.family(first, "histogram", "Time until the answer of the address begins.")
	for i := range s.Upstreams {
		u := &s.Upstreams[i]
		t.histogram(first, labels(u), u.Times, bounds, u.Spent)
	}
}

var classes = [6]string{"left", "1xx", "2xx", "3xx", "4xx", "5xx"}

func (r *Route) labels() []string { return []string{"site", r.Site, "route", r.Route} }

func (s *Snapshot) routes(t *text, bounds []time.Duration) {
	writeAll(t, "lwango_", s.Routes, func(r *Route) (_ []string, all []figure) {
		for class, n := range r.Status {
			all = append(all, figure{"requests_total", "counter",
				"Requests that have ended, by route and class of status; left: the client did not wait.",
				float64(n), []string{"class", classes[class]}})
		}
		return r.labels(), append(all,
			figure{"response_bytes_total", "counter", "Bytes of the bodies of answers.", float64(r.Sent),
				nil},
			figure{"request_bytes_total", "counter", "Bytes of the bodies of requests.", float64(r.Got),
				nil})
	})
	const responses = "lwango_responses_total"
	t.family(responses, "counter", "Answers, by route and status.")
	for i := range s.Routes {
		r := &s.Routes[i]
		for _, code := range slices.Sorted(maps.Keys(r.Codes)) {
			t.sample(responses, float64(r.Codes[code]), append(r.labels(), "code", code)...)
		}
	}
	const name = "lwango_handler_seconds"
	t.family(name, "histogram", "Time of handlers, with their waits.")
	for i := range s.Routes {
		r := &s.Routes[i]
		t.histogram(name, r.labels(), r.Times, bounds, r.Spent)
	}
}

// process has the names that all programs have which Prometheus reads.
func (s *Snapshot) process(t *text) {
	writeAll(t, "process_", []Process{s.Process}, func(p *Process) ([]string, []figure) {
		return nil, []figure{
			{"start_time_seconds", "gauge", "UNIX time at which the process began to serve.",
				unix(p.Started), nil},
			{"cpu_seconds_total", "counter", "Time of all CPUs, in user and kernel mode.", p.CPU, nil},
			{"resident_memory_bytes", "gauge", "Memory that is not swapped out, 0 if it is not known.",
				float64(p.Resident), nil},
			{"open_fds", "gauge", "Open descriptors, 0 if it is not known.", float64(p.OpenFiles), nil},
			{"max_fds", "gauge", "The limit of open descriptors.", float64(p.MaxFiles), nil},
		}
	})
	writeAll(t, "lwango_", []Reload{s.Reload}, func(r *Reload) ([]string, []figure) {
		return nil, []figure{
			{"config_last_reload_successful", "gauge", "0 if the last reload was refused.",
				flag(r.Error == ""), nil},
			{"config_last_reload_success_timestamp_seconds", "gauge",
				"UNIX time at which the configuration in force was read.", unix(r.Configured), nil},
			{"config_reloads_total", "counter", "Reloads.", float64(r.Done), []string{"result", "done"}},
			{"config_reloads_total", "", "", float64(r.Refused), []string{"result", "refused"}},
		}
	})
	writeAll(t, "lwango_", []Logs{s.Logs}, func(l *Logs) ([]string, []figure) {
		return nil, []figure{
			{"log_lines_lost_total", "counter", "Lines that were dropped or left out.", float64(l.Access),
				[]string{"log", "access"}},
			{"log_lines_lost_total", "", "", float64(l.Error), []string{"log", "error"}},
		}
	})
	const refused = "lwango_refusals_total"
	t.family(refused, "counter", "Connections and requests that were refused, or have ended early.")
	for _, kind := range slices.Sorted(maps.Keys(s.Refusals)) {
		t.sample(refused, float64(s.Refusals[kind]), "kind", kind)
	}
	const draining = "lwango_draining_connections"
	t.family(draining, "gauge", "Connections of processes that an upgrade has replaced.")
	for _, d := range s.Draining {
		t.sample(draining, float64(d.Connections), "pid", strconv.Itoa(d.PID))
	}
}

// unix is the time of t for people that count seconds; 0: it is none.
func unix(t time.Time) float64 {
	if t.IsZero() {
		return 0
	}
	return float64(t.UnixMilli()) / 1000
}

func (s *Snapshot) cache(t *text) {
	const name = "lwango_cache_requests_total"
	t.family(name, "counter", "Requests by what the cache has done with them.")
	for i := range s.Routes {
		r := &s.Routes[i]
		for _, use := range slices.Sorted(maps.Keys(r.Cache)) {
			t.sample(name, float64(r.Cache[use]), append(r.labels(), "use", use)...)
		}
	}
	if s.Cache == nil {
		return
	}
	writeAll(t, "lwango_cache_", []Cache{*s.Cache}, func(c *Cache) ([]string, []figure) {
		memory, disk := []string{"in", "memory"}, []string{"in", "disk"}
		return nil, []figure{
			{"objects", "gauge", "Answers that are kept.", float64(c.MemoryObjects), memory},
			{"objects", "", "", float64(c.DiskObjects), disk},
			{"bytes", "gauge", "Bytes that they take.", float64(c.MemoryBytes), memory},
			{"bytes", "", "", float64(c.DiskBytes), disk},
			{"filling", "gauge", "Answers on their way into the cache.", float64(c.Filling), nil},
			{"fills_total", "counter", "Answers that were kept.", float64(c.Fills), nil},
			{"dropped_total", "counter", "Answers that were not kept, once they came.", float64(c.Dropped),
				nil},
			{"evicted_total", "counter", "Answers that had to make room.", float64(c.Evicted), nil},
			{"purged_total", "counter", "Answers that were purged.", float64(c.Purged), nil},
			{"damaged_files_total", "counter", "Files that were damaged, and are dropped.",
				float64(c.Damaged), nil},
			{"disk_failures_total", "counter", "Reads and writes of the disk that have failed.",
				float64(c.Failed), nil},
		}
	})
}

func (s *Snapshot) loops(t *text) {
	answered := slices.DeleteFunc(slices.Clone(s.Loops), func(l Loop) bool { return !l.Answered })
	labels := func(l *Loop) []string { return []string{"loop", strconv.Itoa(l.Loop)} }
	writeAll(t, "lwango_loop_", answered, func(l *Loop) ([]string, []figure) {
		return labels(l), []figure{
			{"busy_seconds_total", "counter", "Time that the loop has not slept.", l.Busy, nil},
			{"wakeups_total", "counter", "Times that the loop has slept for an event.", float64(l.Wakeup),
				nil},
			{"epoll_waits_total", "counter", "Calls of epoll_wait.", float64(l.Waits), nil},
			{"epoll_ctls_total", "counter", "Calls of epoll_ctl.", float64(l.Ctls), nil},
			{"events_total", "counter", "Events of epoll.", float64(l.Events), nil},
			{"resumes_total", "counter", "Times that a thread has become the running one.",
				float64(l.Resume), nil},
			{"no_worker_total", "counter", "Waits that have ended before a worker was free.",
				float64(l.NoWorker), nil},
			{"threads", "gauge", "Green threads, with those of idle connections.", float64(l.Threads), nil},
			{"coroutines", "gauge", "Coroutines that run or wait.", float64(l.Coroutines), nil},
			{"parked_coroutines", "gauge", "Coroutines that are kept for the next thread.",
				float64(l.Parked), nil},
			{"timers", "gauge", "Pending timers.", float64(l.Timers), nil},
			{"workers", "gauge", "Functions that run off the loop.", float64(l.Workers), nil},
			{"workers_queued", "gauge", "Functions that wait for a worker.", float64(l.Queued), nil},
		}
	})
	const yields = "lwango_loop_yields_total"
	t.family(yields, "counter", "What threads have yielded, by code.")
	for i := range s.Loops {
		l := &s.Loops[i]
		for _, code := range slices.Sorted(maps.Keys(l.Yields)) {
			t.sample(yields, float64(l.Yields[code]), append(labels(l), "code", code)...)
		}
	}
	writeAll(t, "lwango_loop_", s.Loops, func(l *Loop) ([]string, []figure) {
		return labels(l), []figure{
			{"stalls_total", "counter", "Times that the watchdog found the loop held up.", float64(l.Stalls),
				nil},
			{"answered", "gauge", "0 if the loop was held up when it was asked.", flag(l.Answered), nil},
		}
	})
}

// figure is a number of a thing. One with the name of the figure before it is of the same family,
// whose kind and help stand there.
type figure struct {
	name, kind, help string
	value            float64
	labels           []string // beside those of the thing
}

// writeAll writes the figures of all things. of returns the labels and the figures of a thing; the
// figures of all things have the same names.
func writeAll[T any](
	t *text, prefix string, all []T, of func(*T) (labels []string, figures []figure),
) {
	things := make([][]figure, len(all))
	labels := make([][]string, len(all))
	for k := range all {
		labels[k], things[k] = of(&all[k])
	}
	_, family := of(new(T))
	for i, end := 0, 0; i < len(family); i = end {
		for end = i + 1; end < len(family) && family[end].name == family[i].name; {
			end++
		}
		t.family(prefix+family[i].name, family[i].kind, family[i].help)
		for k := range all {
			for _, f := range things[k][i:end] {
				t.sample(prefix+f.name, f.value, slices.Concat(labels[k], f.labels)...)
			}
		}
	}
}

func flag(on bool) float64 {
	if on {
		return 1
	}
	return 0
}

// text writes samples.
type text struct{ b []byte }

func (t *text) family(name, kind, help string) {
	t.b = append(t.b, "# HELP "+name+" "+help+"\n# TYPE "+name+" "+kind+"\n"...)
}

// histogram writes one; counts has an entry more than bounds, for what is beyond them.
func (t *text) histogram(name string, labels []string, counts []int64, bounds []time.Duration,
	spent float64) {
	sum := int64(0)
	for i, n := range counts {
		sum += n
		le := "+Inf"
		if i < len(bounds) {
			le = strconv.FormatFloat(bounds[i].Seconds(), 'g', -1, 64)
		}
		t.sample(name+"_bucket", float64(sum), append(slices.Clip(labels), "le", le)...)
	}
	t.sample(name+"_sum", spent, labels...)
	t.sample(name+"_count", float64(sum), labels...)
}

var escape = strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)

// sample writes one line; labels are names, each followed by its value.
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
