package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/loop"
)

// An upgrade replaces the program without a moment in which nobody listens.
//
// The old process starts the file that is now at its own path, and hands down its listening sockets
// (handover.go). The new one reads the configuration, serves the sockets beside the old one, and
// says so. Only then the old one ceases to accept; it answers what its connections still ask, until
// none is left or drain has passed. Whatever the new one does instead, the old one goes on. As long
// as the old one drains, it also takes its place again if the new one ends in disorder, or says that
// it fails.
type upgrade struct {
	process  *os.Process
	news     *os.File      // what the new process says
	heard    chan struct{} // closed when all of that has been told as events
	refuses  atomic.Bool   // hearOut was called: the end of news is not that of the process
	happened chan event
	done     chan struct{} // closed when no event matters any more
	limit    *time.Timer   // for the new process to be ready, and then for drain

	state  upgradeState
	reload bool // a SIGHUP has come
	hung   bool // the process has not become ready in time

	pidFile bool // the new process has it

	manager *manager // until the new process had it
}

type upgradeState uint8

const (
	starting upgradeState = iota
	draining
	settled // draining, and the new process need not be watched any more
	failed
)

// upgradeWait is how long a new process may take until it is ready. It is a variable only for the
// tests.
var upgradeWait = time.Minute

// idleEvery is how often a process that was replaced looks whether it is needed any more.
const idleEvery = 100 * time.Millisecond

// event is something that has happened to an upgrade.
type event struct {
	message        // what the new process says, if it says something
	ended   string // how it has ended
	late    bool   // it was not ready in time
	expired bool   // drain has passed
	look    bool   // it is time to look whether a connection is left
	idle    bool   // none is left
}

// program is what the process was started as.
type program struct {
	path string
	args []string // with the name of the program
}

// findProgram is called at the start. The path is that by which the program was called: a link that
// leads to another version later leads an upgrade there as well.
func findProgram(args []string) program {
	name := os.Args[0]
	p := program{args: append([]string{name}, args...)}
	const running = "/proc/self/exe"
	self, err := os.Stat(running)
	if called, err2 := exec.LookPath(name); err2 == nil && err == nil {
		abs, err := filepath.Abs(called)
		if there, err2 := os.Stat(abs); err == nil && err2 == nil && os.SameFile(self, there) {
			p.path = abs
			return p
		}
	}
	if path, err := os.Executable(); err == nil {
		p.path = path
	}
	return p
}

// underWay reports whether there is a new process which does not serve yet, or does.
func (u *upgrade) underWay() bool { return u != nil && u.state != failed }

// events returns where the upgrade's events come from; nil without any.
func (u *upgrade) events() <-chan event {
	if u == nil {
		return nil
	}
	return u.happened
}

// tell reports an event. It is called by goroutines of the upgrade.
func (u *upgrade) tell(e event) {
	select {
	case u.happened <- e:
	case <-u.done:
	}
}

// giveUp is called when this process stops. It ends a new process that is not ready. It reports
// whether a new process that was ready has given everything back, to this one, which cannot take it.
func (u *upgrade) giveUp() (back bool) {
	if !u.underWay() {
		return false
	}
	if u.state == starting {
		_ = u.process.Kill() // it may have ended
	} else if back = u.hearOut(); back {
		u.state = failed
	}
	u.end()
	return back
}

// hearOut ends the listening to the new process. It reports whether that has given everything back
// before. If it tries to from here on, its write fails (EPIPE, unix(7)), and so it knows that this
// process does not take its place.
func (u *upgrade) hearOut() (back bool) {
	u.refuses.Store(true)
	if c, err := u.news.SyscallConn(); err == nil { // otherwise it is closed: all has been heard
		_ = c.Control(func(fd uintptr) { _ = unix.Shutdown(int(fd), unix.SHUT_RD) })
	}
	for {
		select {
		case e := <-u.happened:
			back = back || e.Back
		case <-u.heard:
			return back
		}
	}
}

// end ends the goroutines of the upgrade. That of watch waits for the new process.
func (u *upgrade) end() {
	u.limit.Stop()
	close(u.done)
}

// replaced reports whether a new process has taken the place of this one.
func (s *server) replaced() bool {
	return s.upgrade != nil && (s.upgrade.state == draining || s.upgrade.state == settled)
}

// beginUpgrade starts the new process.
func (s *server) beginUpgrade(stopping bool) {
	refuse := func(why string, args ...any) {
		s.own.Warn("upgrade refused: "+why, args...)
	}
	switch {
	case stopping:
		refuse("the server stops")
		s.reportUpgrade("refused: the server stops")
		return
	case s.replaced():
		refuse("another process has taken the place of this one", "pid", s.upgrade.process.Pid)
		s.reportUpgrade("refused: process %d has taken the place of this one already",
			s.upgrade.process.Pid)
		return
	case s.upgrade.underWay():
		refuse("one is under way", "pid", s.upgrade.process.Pid)
		return
	case os.Getpid() == 1:
		s.failedUpgrade("process 1 cannot be replaced: with its end, its container ends")
		return
	}
	if !s.source.jail.executes() {
		s.failedUpgrade("[confine] keeps this process from executing a program; a new one needs a " +
			"restart")
		return
	}
	// Otherwise, if this process were killed now, both the process before and the new one would go on.
	s.before.over()
	u, err := s.launch()
	if err != nil {
		s.failedUpgrade(err.Error())
		return
	}
	s.upgrade = u
	s.own.Info("upgrade begins", "program", s.program.path, "pid", u.process.Pid)
}

// launch starts the program with the sockets.
func (s *server) launch() (*upgrade, error) {
	// Only a socket lets its reader refuse what is written later, and yet read what was written
	// before.
	pair, err := unix.Socketpair(unix.AF_UNIX,
		unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	news := os.NewFile(uintptr(pair[0]), "upgrade")
	defer unix.Close(pair[1])

	// Numbers of descriptors and not *os.File: the latter, once asked for its number, lets reads and
	// writes wait in the kernel, and the loops share that state.
	files := []uintptr{0, 1, 2}
	give := func(fd int) int {
		files = append(files, uintptr(fd))
		return len(files) - 1
	}
	h := handover{PID: os.Getpid(), Sockets: map[string]handed{}, News: give(pair[1])}
	for a, l := range s.listeners {
		if a.Network == "systemd" {
			continue
		}
		from := handed{Shown: l.socket.shown}
		for _, fd := range l.socket.fds[:l.socket.own] {
			from.FDs = append(from.FDs, give(fd))
		}
		if l.socket.path != "" {
			from.Dev, from.Ino = l.socket.file.Dev, l.socket.file.Ino
		}
		h.Sockets[a.String()] = from
	}
	for name, fds := range s.inherited { // all of them: the configuration may name others by now
		from := handed{Shown: "systemd:" + name}
		for _, fd := range fds {
			from.FDs = append(from.FDs, give(fd))
		}
		h.Sockets["systemd:"+name] = from
	}
	if s.pid != nil {
		h.PIDFile, h.PIDFileFD = s.pid.path, give(int(s.pid.file.Fd()))
	}
	text, err := json.Marshal(h)
	if err != nil {
		news.Close()
		return nil, err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		// The number is this process's. Without it, the interval is for whoever has it.
		return v == "WATCHDOG_PID="+strconv.Itoa(os.Getpid())
	})
	env = append(env, upgradeVariable+"="+string(text))
	attr := new(syscall.SysProcAttr)
	if s.manager != nil {
		// systemd lets the main process end in peace only if that is a child of systemd's own. Any
		// other is killed at once when the service stops.
		attr.Cloneflags = unix.CLONE_PARENT
	}
	pid, err := syscall.ForkExec(s.program.path, s.program.args,
		&syscall.ProcAttr{Env: env, Files: files, Sys: attr})
	if err != nil {
		news.Close()
		return nil, &os.PathError{Op: "start", Path: s.program.path, Err: err}
	}
	process, err := os.FindProcess(pid)
	if err != nil { // never on Linux
		news.Close()
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return nil, err
	}
	return watched(process, news), nil
}

// watched begins to watch a new process, which writes what it says to the other end of news.
func watched(process *os.Process, news *os.File) *upgrade {
	u := &upgrade{process: process, news: news, heard: make(chan struct{}),
		happened: make(chan event), done: make(chan struct{})}
	u.limit = time.AfterFunc(upgradeWait, func() { u.tell(event{late: true}) })
	go u.watch()
	return u
}

// watch reports what the new process says, and how it ends.
func (u *upgrade) watch() {
	defer u.news.Close()
	over := false
	read := json.NewDecoder(u.news)
	for {
		var m message
		err := read.Decode(&m)
		if errors.As(err, new(*json.UnmarshalTypeError)) {
			continue // a message that a later release has changed
		}
		if err != nil {
			var wrong *json.SyntaxError
			if errors.As(err, &wrong) {
				_ = u.process.Kill() // a program that is no lwango
			}
			break
		}
		over = over || m.Over
		u.tell(event{message: m})
	}
	close(u.heard)
	state, err := u.process.Wait()
	e := event{}
	switch {
	case errors.Is(err, unix.ECHILD): // it is the manager's: the end of what it says is its end
		if !over && !u.refuses.Load() {
			_ = u.process.Kill()
		}
		e.ended = "it has ended: see its own lines"
	case err != nil:
		e.ended = err.Error()
	case state.ExitCode() == exitUsage: // also the code of a panic
		e.ended = "it refuses its configuration, or has crashed: see its own lines (" +
			state.String() + ")"
	default:
		e.ended = "it has ended (" + state.String() + ")"
	}
	u.tell(e)
}

const itFails = "it fails: see its own lines"

// upgraded acts on an event, and reports whether this process has nothing more to do.
func (s *server) upgraded(e event) (over bool) {
	u := s.upgrade
	switch {
	case u.state == failed: // the event was on its way
	case e.Ready:
		if u.state == starting {
			s.handOver(e.message)
		}
	case e.Over:
		if u.state == draining {
			u.state = settled
			s.retain(nil)
		}
	case e.Back:
		if u.state == draining {
			s.takeBack(itFails)
		}
	case e.Serves != nil:
		s.retain(e.Serves)
	case e.late:
		if u.state == starting {
			u.hung = true
			_ = u.process.Kill()
		}
	case e.expired, e.idle:
		if u.hearOut() {
			s.takeBack(itFails)
			return false
		}
		if e.idle {
			s.own.Info("drained")
		} else {
			s.own.Info("drain is over", "connections", s.conn.Active())
		}
		return true
	case e.look:
		s.lookIdle()
	case e.ended != "" && u.state == starting:
		u.end()
		u.state = failed
		if u.hung {
			e.ended = fmt.Sprintf("it was not ready within %v", upgradeWait)
		}
		s.failedUpgrade(e.ended)
		s.renewDebug()
		if u.reload {
			s.hup()
		}
	case e.ended != "" && u.state == draining:
		s.takeBack(e.ended)
	}
	return false
}

// failedUpgrade logs why there is no new process.
func (s *server) failedUpgrade(why string) {
	s.own.Error("upgrade failed, this process goes on", "program", s.program.path, "error", why)
	s.reportUpgrade("failed: %s", why)
}

// reportUpgrade tells the command that has asked for the upgrade.
func (s *server) reportUpgrade(format string, args ...any) {
	if err := s.pid.report(fmt.Sprintf(format, args...)); err != nil {
		s.own.Warn("the result of the upgrade cannot be written", "error", err)
	}
}

// handOver leaves everything to the new process, which serves already.
func (s *server) handOver(m message) {
	u := s.upgrade
	u.state = draining
	pid := u.process.Pid
	u.manager, s.manager = s.manager, nil
	u.manager.replaced(pid)
	if u.pidFile = m.PIDFile; u.pidFile {
		if err := s.pid.write(pid); err != nil {
			s.own.Error("the number of the new process cannot be written", "error", err)
		}
	}
	cc := s.connConfig()
	cc.Leaving = true
	s.conn.Configure(cc)
	s.leaveListeners(m)
	s.debug.leave()
	s.obtainer.end()
	s.obtainer = nil

	u.limit.Stop()
	u.limit = time.AfterFunc(s.config.Drain, func() { u.tell(event{expired: true}) })
	go func() {
		tick := time.NewTicker(idleEvery)
		defer tick.Stop()
		for {
			select {
			case <-tick.C:
				u.tell(event{look: true})
			case <-u.done:
				return
			}
		}
	}()
	s.own.Info("replaced by a new process", "pid", pid, "drain", s.config.Drain,
		"connections", s.conn.Active())
	s.reportUpgrade("ok: process %d has taken the place of process %d", pid, os.Getpid())
	if u.reload {
		_ = u.process.Signal(syscall.SIGHUP) // what it has read may be older than the signal
	}
}

// leaveListeners ends the accepting. What waits in the queues is accepted by this process or by the
// new one, which has the same sockets. Those that the new one does not serve are closed. This
// process keeps the others open: see takeBack.
func (s *server) leaveListeners(m message) {
	var all []*listener
	for a, l := range s.listeners {
		all = append(all, l)
		if !slices.Contains(m.Serves, a.String()) {
			l.socket.remove()
			l.socket.close()
			delete(s.listeners, a)
			s.own.Info("no longer listening", "address", l.socket.shown)
		}
	}
	first := !s.kept
	s.kept = true
	s.onLoops(func(i int) {
		if first { // without this, a loop would end with its last connection, for ever
			s.loops[i].Go(func(t *loop.Thread) { _, _ = t.AwaitAny(-1, t.Loop().Stopped()) })
		}
		for _, l := range all {
			for _, h := range l.handles[i] {
				h.Close()
			}
			l.handles[i] = nil
		}
	})
	s.onLoops(func(int) {}) // as in exchange: after another turn, what is announced is true
}

// retain closes the sockets of all addresses but those that the new process still serves. Otherwise
// clients could connect to them, and nobody would answer.
func (s *server) retain(serves []string) {
	for a, l := range s.listeners {
		if !slices.Contains(serves, a.String()) {
			l.socket.close()
			delete(s.listeners, a)
		}
	}
}

// lookIdle reports the event idle if no loop has a thread beside the one that keeps it running.
func (s *server) lookIdle() {
	u := s.upgrade
	var left atomic.Int32
	var busy atomic.Bool
	left.Store(int32(len(s.loops)))
	for _, l := range s.loops {
		_ = l.Post(func() { // a loop that has ended is an event of its own
			if l.Threads() > 1 {
				busy.Store(true)
			}
			if left.Add(-1) == 0 && !busy.Load() {
				go u.tell(event{idle: true})
			}
		})
	}
}

// takeBack accepts again, since the new process has ended in disorder, or is about to. The sockets
// are still there, and so are the clients that have connected meanwhile.
func (s *server) takeBack(how string) {
	u := s.upgrade
	u.end()
	u.state = failed
	s.manager = u.manager
	s.manager.replaced(os.Getpid())
	if err := s.pid.write(os.Getpid()); err != nil {
		s.own.Error("the number of the process cannot be written", "error", err)
	}
	s.conn.Configure(s.connConfig())
	for a, old := range s.listeners {
		lc := old.config
		if old.certs != nil {
			lc.TLS = old.certs.Load()
		}
		l, err := s.reuse(old, lc)
		if err != nil {
			s.own.Error("an address is not served any more", "address", old.socket.shown,
				"error", err)
			delete(s.listeners, a)
		} else {
			s.listeners[a] = l
		}
		old.socket.close()
	}
	all := slices.Collect(maps.Values(s.listeners))
	s.onLoops(func(i int) {
		for _, l := range all {
			if err := s.serve(l, i); err != nil {
				s.own.Error("an address is not served by one of the loops", "error", err)
			}
		}
	})
	s.obtain()
	s.failedUpgrade(how)
	s.renewDebug()
}

// requestUpgrade asks the server of a configuration's pid_file for an upgrade, waits for the result,
// and returns the exit code.
func requestUpgrade(c *config, stdout, stderr io.Writer) int {
	if !c.Confine.executes() {
		fmt.Fprintf(stderr, "lwango: -upgrade: a confined server cannot start another program: "+
			"restart it\n")
		return exitFailure
	}
	result, err := request(c.PIDFile)
	if err != nil {
		fmt.Fprintf(stderr, "lwango: -upgrade: %v\n", err)
		return exitFailure
	}
	if text, ok := strings.CutPrefix(result, "ok: "); ok {
		fmt.Fprintf(stdout, "%s\n", text)
		return exitStopped
	}
	fmt.Fprintf(stderr, "lwango: -upgrade: %s\n", result)
	return exitFailure
}

// request returns the result of an upgrade, as the server has written it.
func request(path string) (string, error) {
	if path == "" {
		return "", errors.New("the configuration has no pid_file, which says where the server is; " +
			"without it, send the server the signal SIGUSR2, and look at its log")
	}
	f, err := openRegular(path, os.O_RDONLY)
	if errors.Is(err, os.ErrNotExist) {
		return "", fmt.Errorf("no server runs: there is no %s", path)
	}
	if err != nil {
		return "", err
	}
	defer f.Close()
	pid, err := readPID(f)
	if err != nil {
		return "", err
	}
	if err := holds(pid, f); err != nil {
		return "", err
	}
	if err := prepareResult(path, pid); err != nil {
		return "", fmt.Errorf("the server could not say how the upgrade ends: %w; send it the signal "+
			"SIGUSR2, and look at its log", err)
	}
	if err := syscall.Kill(pid, syscall.SIGUSR2); err != nil {
		return "", fmt.Errorf("process %d: %w", pid, err)
	}
	const every, more = 20 * time.Millisecond, 10 * time.Second
	for until := time.Now().Add(upgradeWait + more); time.Now().Before(until); time.Sleep(every) {
		killed := errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
		if text, err := readResult(path); text != "" || err != nil {
			return text, err
		}
		switch {
		case !locked(f):
			return "", errors.New("the server has ended")
		case killed: // and another process has the lock
			return "", fmt.Errorf("process %d has ended before the new one was ready, which goes on if "+
				"it gets ready (systemd ends it, and starts the service anew): look at its log", pid)
		}
	}
	return "", fmt.Errorf("process %d does not say how the upgrade has ended, look at its log", pid)
}

// holds returns nil if a process has a pidFile open, as a server has that runs. Otherwise the number
// is left from a server that was killed, and may be that of any other process by now, which SIGUSR2
// would end.
func holds(pid int, f *os.File) error {
	own, err := f.Stat()
	if err != nil {
		return err
	}
	dir := fmt.Sprintf("/proc/%d/fd", pid)
	open, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	for _, entry := range open {
		there, err := os.Stat(filepath.Join(dir, entry.Name()))
		if err == nil && os.SameFile(own, there) {
			return nil
		}
	}
	return fmt.Errorf("no server runs: process %d, of which %s speaks, is none", pid, f.Name())
}

// locked reports whether a process has locked a pidFile.
func locked(f *os.File) bool {
	lock := wholeFile(unix.F_WRLCK)
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &lock)
	return err == nil && lock.Type != unix.F_UNLCK
}
