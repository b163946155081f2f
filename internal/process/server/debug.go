package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/sockets"
	"github.com/lwango/lwango/loop"
)

// debugServer answers at the address of [debug]. It does not run on the loops, but on net/http, so
// that it answers while handlers block the loops.
type debugServer struct {
	address sockets.Address
	socket  *sockets.Socket // nil: it does not listen any more
	server  http.Server
	serve   func()        // begins to serve, at the first call
	done    chan struct{} // closed when it no longer serves

	allowsChanges atomic.Bool // clients may change something, see setAllowsChanges
}

// debugName is the name of a debugServer's socket in a handover.
func debugName(at sockets.Address) string { return "debug " + at.String() }

// openDebug begins to listen at an address. Only the present debugServer, or that of the old
// process, may listen there already. The caller calls start.
func (s *server) openDebug(at sockets.Address) (*debugServer, error) {
	e := &sockets.Endpoint{Address: at}
	if at.Network == "unix" {
		e.Chmod(0o600)
	}
	opening.Lock()
	defer opening.Unlock()
	socket, err := s.handed.open(debugName(at), e, 1)
	if socket == nil && err == nil {
		socket, err = sockets.Open(e, 1, map[int]bool{s.debug.port(): true})
	}
	var ln net.Listener
	if err == nil {
		if ln, err = socket.Listener(); err != nil {
			socket.Remove()
			socket.Close()
		}
	}
	if err != nil {
		return nil, err
	}
	d := &debugServer{address: at, socket: socket, done: make(chan struct{})}
	h := s.debugHandler(d)
	if at.Network == "tcp" { // with allow_remote as well: a page may know this machine's address
		h = onlyByAddress(h)
	}
	d.server = http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: time.Minute}
	d.serve = sync.OnceFunc(func() {
		go func() {
			defer close(d.done)
			_ = d.server.Serve(ln) // it ends by close
		}()
	})
	s.own.Info("debug: listening", "network", ln.Addr().Network(), "address", ln.Addr().String())
	return d, nil
}

// onlyByAddress refuses requests whose Host is a name. Otherwise a page in a browser could read the
// answers, if its own name resolves to this address a moment later (DNS rebinding).
func onlyByAddress(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := r.Host
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" {
			http.Error(w, "expected an address or localhost as the host", http.StatusForbidden)
			return
		}
		h.ServeHTTP(w, r)
	})
}

// setAllowsChanges notes whether clients may change something, such as the state of an upstream.
// They may only read where c lets other machines connect, or where a proxy may be in front of a
// loopback address.
func (d *debugServer) setAllowsChanges(c *config.Config) {
	if d != nil {
		d.allowsChanges.Store(d.address.Network == "unix" || d.address.Loopback() && !c.Debug.Remote)
	}
}

// requireChanges wraps h. It refuses requests where clients may not change anything, and requests
// of a page in a browser.
func (d *debugServer) requireChanges(h http.HandlerFunc) http.Handler {
	safe := onlyByAddress(http.NewCrossOriginProtection().Handler(h))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !d.allowsChanges.Load() {
			http.Error(w, "nothing can be changed here: that takes a debug.address of a UNIX socket, "+
				"or of this machine without allow_remote", http.StatusForbidden)
			return
		}
		safe.ServeHTTP(w, r)
	})
}

// port returns the port at which d listens; -1: none.
func (d *debugServer) port() int {
	if d == nil {
		return -1
	}
	return d.address.Port()
}

// stopListening ends the listening; serves has the names of what a new process serves. Answers that
// have begun, such as a profile, go on. A nil d does nothing.
func (d *debugServer) stopListening(serves []string) {
	if d == nil {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = d.server.Shutdown(over) // it does not wait
	if !slices.Contains(serves, debugName(d.address)) {
		d.socket.Remove()
	}
	d.socket.Close()
	d.socket = nil
}

// start makes d serve, also the requests that have arrived meanwhile. The store of answers is open,
// so that no purge is lost. A nil d does nothing.
func (d *debugServer) start() {
	if d != nil {
		d.serve()
	}
}

// close ends all answers. A nil d does nothing.
func (d *debugServer) close() {
	if d == nil {
		return
	}
	_ = d.server.Close()
	d.serve() // which closes the listener, if nothing else has
	<-d.done
	if d.socket != nil {
		d.socket.Remove()
		d.socket.Close()
	}
}

// debugFor opens the address of next, if that has changed. The present debugServer stays open until
// the caller closes it. Requests at the new address wait for start.
func (s *server) debugFor(next *config.Config) (*debugServer, error) {
	switch {
	case s.debug != nil && s.debug.address == next.Debug.At:
		return s.debug, nil
	case next.Debug.At.Network == "":
		return nil, nil
	}
	d, err := s.openDebug(next.Debug.At)
	if err != nil {
		return nil, next.Debug.Table.Wrong("address", err)
	}
	d.setAllowsChanges(next)
	return d, nil
}

// debugHandler serves the paths of net/http/pprof. To import that package would register its
// handlers with http.DefaultServeMux: a program that has lwango in it, and serves that mux, would
// show its profiles there.
func (s *server) debugHandler(d *debugServer) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w,
			"/debug/threads    green threads that run or wait; ?idle=1: idle connections, too\n"+
				"/debug/upstreams\n/debug/pprof/profile?seconds=30\n/debug/pprof/trace?seconds=5\n")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "/debug/pprof/%s?debug=1    %d\n", p.Name(), p.Count())
		}
	})
	mux.HandleFunc("GET /debug/threads", s.dumpThreads)
	mux.HandleFunc("GET /debug/upstreams", s.upstreams)
	mux.Handle("POST /debug/upstreams", d.requireChanges(s.upstreams))
	mux.Handle("POST /debug/cache/purge", d.requireChanges(s.purger()))
	mux.HandleFunc("GET /debug/pprof/profile", timed(30*time.Second,
		pprof.StartCPUProfile, pprof.StopCPUProfile))
	mux.HandleFunc("GET /debug/pprof/trace", timed(time.Second, trace.Start, trace.Stop))
	mux.HandleFunc("GET /debug/pprof/{name}", func(w http.ResponseWriter, r *http.Request) {
		p := pprof.Lookup(r.PathValue("name"))
		if p == nil {
			http.NotFound(w, r)
			return
		}
		debug, _ := strconv.Atoi(r.FormValue("debug"))
		if debug == 0 {
			w.Header().Set("Content-Type", "application/octet-stream")
		} else {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		}
		_ = p.WriteTo(w, debug) // the client may have left
	})
	return mux
}

// maxTimed is how long a profile or a trace may take.
const maxTimed = 10 * time.Minute

// timed answers with what begin writes until end is called.
func timed(usual time.Duration, begin func(io.Writer) error, end func()) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		d := usual
		if text := r.FormValue("seconds"); text != "" {
			seconds, err := strconv.ParseFloat(text, 64)
			if err != nil || !(seconds > 0) || seconds > maxTimed.Seconds() {
				http.Error(w, fmt.Sprintf("seconds: expected more than 0, up to %v", maxTimed.Seconds()),
					http.StatusBadRequest)
				return
			}
			d = time.Duration(seconds * float64(time.Second))
		}
		w.Header().Set("Content-Type", "application/octet-stream")
		if err := begin(&deadlineWriter{w, http.NewResponseController(w)}); err != nil {
			// Another profile runs.
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			http.Error(w, err.Error(), http.StatusConflict)
			return
		}
		select {
		case <-time.After(d):
		case <-r.Context().Done():
		}
		end()
	}
}

// deadlineWriter writes to a client that has to take each piece within pieceTimeout. end waits
// until all is written, and the next profile waits until end has returned.
type deadlineWriter struct {
	http.ResponseWriter
	control *http.ResponseController
}

// pieceTimeout is for one piece. It is a variable only for the tests.
var pieceTimeout = 10 * time.Second

func (i *deadlineWriter) Write(p []byte) (int, error) {
	_ = i.control.SetWriteDeadline(time.Now().Add(pieceTimeout)) // later pieces fail at once then
	return i.ResponseWriter.Write(p)
}

// describer is a task that can say what it does. Describe is called on the loop.
type describer interface{ Describe() string }

// dumpThreads lists the green threads of all loops. Those that have waited longest come first.
func (s *server) dumpThreads(w http.ResponseWriter, r *http.Request) {
	idle := r.FormValue("idle") != "" && r.FormValue("idle") != "0"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ctx, cancel := context.WithTimeout(r.Context(), answerWait)
	defer cancel()
	answers := askLoops(ctx, s.loops, func(i int) (all []threadLine) {
		s.loops[i].Layer().EachThread(idle, func(t loop.ThreadState) {
			line := threadLine{ThreadState: t}
			if d, ok := t.Task.(describer); ok {
				line.what = d.Describe()
			} else {
				line.what = fmt.Sprintf("%T", t.Task)
			}
			all = append(all, line)
		})
		return all
	})
	for i, a := range answers {
		switch {
		case errors.Is(a.err, net.ErrClosed):
			fmt.Fprintf(w, "loop %d has ended\n", i)
			continue
		case a.err != nil:
			fmt.Fprintf(w,
				"loop %d does not answer: a handler holds it; see /debug/pprof/goroutine?debug=2\n", i)
			continue
		}
		slices.SortStableFunc(a.value, func(a, b threadLine) int { return cmp.Compare(b.For, a.For) })
		fmt.Fprintf(w, "loop %d: %d threads\n", i, len(a.value))
		for _, t := range a.value {
			fmt.Fprintln(w, t)
		}
	}
}

// threadLine is a line of the dump.
type threadLine struct {
	loop.ThreadState
	what string
}

func (t threadLine) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "  %-8s", t.State)
	if t.State == "waiting" || t.State == "idle" {
		fmt.Fprintf(&b, " %v", t.Code)
		switch {
		case t.Awaited >= 0:
			fmt.Fprintf(&b, " of descriptor %d", t.Awaited)
		case t.Code != coro.Suspend && t.FD >= 0:
			fmt.Fprintf(&b, " of its descriptor %d", t.FD)
		}
	}
	if t.State != "idle" {
		fmt.Fprintf(&b, ", for %v", t.For)
	}
	if t.Limit >= 0 {
		fmt.Fprintf(&b, ", %v left", t.Limit)
	}
	if t.FD >= 0 {
		fmt.Fprintf(&b, ", fd %d", t.FD)
	}
	return b.String() + ": " + t.what
}
