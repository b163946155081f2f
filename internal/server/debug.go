package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"runtime/pprof"
	"runtime/trace"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/settings"
	"github.com/lwango/lwango/internal/sockets"
	"github.com/lwango/lwango/loop"
)

// debugConfig is [debug].
type debugConfig struct {
	Table settings.Table `toml:",table"`
	// Address is where profiles, traces and a list of the threads can be had: a UNIX socket, or
	// host:port of this machine; empty: nowhere.
	Address string `toml:"address"`
	// Remote lets the address be one that other machines reach.
	Remote bool `toml:"allow_remote"`

	at sockets.Address // of Address; its Network is "" if there is none
}

// checkDebug reads the address. Profiles and traces show what clients send, and let their reader
// use a processor for as long as it likes. So an address that other machines reach is refused
// unless allow_remote says that it is meant.
func (c *config) checkDebug() {
	d := &c.Debug
	if d.Address == "" {
		if d.Table.Has("address") || d.Table.Has("allow_remote") {
			d.Table.Errorf("address", `expected something like "unix:/run/lwango/debug.sock"`)
		}
		return
	}
	at, err := sockets.ParseAddress(d.Address, c.Dir)
	switch {
	case err != nil:
		d.Table.Errorf("address", "%v", err)
		return
	case at.Network == "systemd":
		d.Table.Errorf("address", "expected unix:path or host:port, found %q", d.Address)
		return
	case at.Network == "tcp" && !d.Remote && !at.Loopback():
		d.Table.Errorf("address", "other machines could read what clients send: expected unix:path "+
			"or an address such as 127.0.0.1:6060, or allow_remote = true")
		return
	}
	d.at = at
}

// checkApart checks that no listener has the address: with SO_REUSEPORT, each would get a part of the
// other's connections. The listeners are those that are used, with those of the command line.
func (c *config) checkApart() error {
	for _, l := range c.Listeners {
		if c.Debug.at.Meets(l.Address) {
			return c.Debug.Table.Wrong("address", fmt.Errorf("clients connect to that one: there is a "+
				"listener at %s", l.Address))
		}
	}
	return nil
}

// debugger answers at [debug] address. It runs beside the loops, on net/http, so that it answers
// while they are held up.
type debugger struct {
	at     sockets.Address
	server http.Server
	done   chan struct{}
	left   bool // it does not listen any more
}

// openDebug begins to answer at an address. shared says that this process, or the one that this one
// takes the place of, may listen there already; nobody else may.
func (s *server) openDebug(at sockets.Address, shared bool) (*debugger, error) {
	var ln net.Listener
	var err error
	if at.Network == "tcp" && !shared {
		err = sockets.Probe(at.Name)
	}
	if err == nil {
		ln, err = listenDebug(at)
	}
	if err != nil {
		return nil, fmt.Errorf("debug.address: %w", err)
	}
	d := &debugger{at: at, done: make(chan struct{})}
	h := s.debugHandler()
	if at.Network == "tcp" && at.Loopback() {
		h = onlyByAddress(h)
	}
	d.server = http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: time.Minute}
	go func() {
		defer close(d.done)
		_ = d.server.Serve(ln) // it ends by close
	}()
	s.own.Info("debug: listening", "network", ln.Addr().Network(), "address", ln.Addr().String())
	return d, nil
}

// listenDebug lets a server that takes the place of another one, in an upgrade, have the address
// while the other one still answers there, until that leaves it.
func listenDebug(at sockets.Address) (net.Listener, error) {
	if at.Network != "unix" {
		shared := listenAfter(func(fd int) error {
			return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, 1)
		})
		return shared.Listen(context.Background(), "tcp", strings.TrimPrefix(at.Name, "*"))
	}
	if info, err := os.Lstat(at.Name); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s: there is a file that is no socket", at.Name)
	}
	// Between bind and chmod another user could connect. So the socket has its mode before: bind(2)
	// gives that to the file. It is moved to its place within the folder, since Landlock refuses any
	// other move before Linux 5.19 (LANDLOCK_ACCESS_FS_REFER, landlock(7)).
	made := filepath.Join(filepath.Dir(at.Name), fmt.Sprintf(".lwango-debug-%08x", rand.Uint32()))
	own := listenAfter(func(fd int) error { return unix.Fchmod(fd, 0o600) })
	ln, err := own.Listen(context.Background(), "unix", made)
	if err != nil {
		return nil, err
	}
	l := unixListener{UnixListener: ln.(*net.UnixListener), path: at.Name}
	l.SetUnlinkOnClose(false) // by a name that is gone
	if l.file, err = os.Lstat(made); err == nil {
		err = os.Rename(made, at.Name)
	}
	if err != nil {
		_ = os.Remove(made)
		l.UnixListener.Close()
		return nil, err
	}
	return l, nil
}

// listenAfter listens with sockets to which set was applied before bind(2).
func listenAfter(set func(fd int) error) net.ListenConfig {
	return net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
		cerr := c.Control(func(fd uintptr) { err = set(int(fd)) })
		return errors.Join(cerr, err)
	}}
}

// unixListener removes its file at its end, unless another server has put its own there.
type unixListener struct {
	*net.UnixListener
	path string
	file fs.FileInfo
}

// Close implements net.Listener.
func (l unixListener) Close() error {
	if now, err := os.Lstat(l.path); err == nil && os.SameFile(now, l.file) {
		_ = os.Remove(l.path)
	}
	return l.UnixListener.Close()
}

// Addr returns the address that clients use.
func (l unixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.path, Net: "unix"} }

// onlyByAddress refuses requests that name a host. A page in a browser on this machine, whose own
// name leads to 127.0.0.1 a moment later, could read the answers otherwise.
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

// leave ends the listening. What is being answered, such as a profile, goes on. A nil d does
// nothing.
func (d *debugger) leave() {
	if d == nil {
		return
	}
	over, cancel := context.WithCancel(context.Background())
	cancel()
	_ = d.server.Shutdown(over) // it does not wait
	d.left = true
}

// close ends all answers. A nil d does nothing.
func (d *debugger) close() {
	if d == nil {
		return
	}
	_ = d.server.Close()
	<-d.done
}

// nextDebug opens the address of next, if that is another one than before; the one before stays
// open until the caller closes it.
func (s *server) nextDebug(next *config) (*debugger, error) {
	switch {
	case s.debug != nil && s.debug.at == next.Debug.at:
		return s.debug, nil
	case next.Debug.at.Network == "":
		return nil, nil
	}
	shared := s.source.handed != nil || s.debug != nil && s.debug.at.Meets(next.Debug.at)
	return s.openDebug(next.Debug.at, shared)
}

// renewDebug listens anew after an upgrade that has failed: this process may have left the address
// to the new one, which may also have replaced the file of a UNIX socket before it was ready.
func (s *server) renewDebug() {
	if s.debug == nil || s.debug.at.Network != "unix" && !s.debug.left {
		return
	}
	at := s.debug.at
	s.debug.close()
	var err error
	if s.debug, err = s.openDebug(at, true); err != nil {
		s.own.Error("debug: no longer listening", "error", err)
	}
}

// debugHandler has the paths of net/http/pprof. Importing that package would put its handlers into
// http.DefaultServeMux, and so show the profiles of a program that has lwango in it at whatever
// port it serves that mux.
func (s *server) debugHandler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "/debug/threads    green threads that run or wait; ?idle=1: idle connections, too\n"+
			"/debug/pprof/profile?seconds=30\n/debug/pprof/trace?seconds=5\n")
		for _, p := range pprof.Profiles() {
			fmt.Fprintf(w, "/debug/pprof/%s?debug=1    %d\n", p.Name(), p.Count())
		}
	})
	mux.HandleFunc("GET /debug/threads", s.dumpThreads)
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
		if err := begin(w); err != nil { // another one runs
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

// describer is a body of a thread that can say what it does; it is called on the loop.
type describer interface{ Describe() string }

// dumpThreads lists the green threads of all loops, those that have waited longest first.
func (s *server) dumpThreads(w http.ResponseWriter, r *http.Request) {
	idle := r.FormValue("idle") != "" && r.FormValue("idle") != "0"
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	ctx, cancel := context.WithTimeout(r.Context(), answerWait)
	defer cancel()
	answers := askLoops(ctx, s.loops, func(i int) (all []thread) {
		s.loops[i].Look(idle, func(t loop.ThreadState) {
			line := thread{ThreadState: t}
			if d, ok := t.Body.(describer); ok {
				line.what = d.Describe()
			} else {
				line.what = fmt.Sprintf("%T", t.Body)
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
			fmt.Fprintf(w, "loop %d does not answer: a handler holds it; see /debug/pprof/goroutine?debug=2\n", i)
			continue
		}
		slices.SortStableFunc(a.value, func(a, b thread) int { return cmp.Compare(b.For, a.For) })
		fmt.Fprintf(w, "loop %d: %d threads\n", i, len(a.value))
		for _, t := range a.value {
			fmt.Fprintln(w, t)
		}
	}
}

// thread is a line of the dump.
type thread struct {
	loop.ThreadState
	what string
}

func (t thread) String() string {
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
