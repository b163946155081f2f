package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"time"

	"github.com/lwango/lwango/internal/process/sockets"
	"golang.org/x/sys/unix"
)

// upgrade replaces the running program without a moment in which no process listens.
//
// The old process starts the file that is now at its own path, and hands down its listening sockets
// (handover.go). The new process reads the configuration, serves the sockets beside the old one,
// and sends a message. Only then the old one stops accepting; it serves its connections until none
// is left or drain has passed. If the new process does anything else, the old one goes on.
type upgrade struct {
	process  *os.Process
	messages *os.File // of the new process
	happened chan event
	done     chan struct{} // closed when no event matters any more
	limit    *time.Timer   // for the new process to be ready, and then for drain

	reports *os.File  // to the new process, see reportDrain
	since   time.Time // it has been draining
	looks   int       // of checkIdle

	state    upgradeState
	reload   bool // a SIGHUP has arrived
	timedOut bool // the new process was not ready in time

	pidFile       bool // the new process has it
	purgeSender   *purgeSender
	purgeReceiver *purgeReceiver // ends first: it passes purges on to purgeSender
}

type upgradeState uint8

const (
	starting upgradeState = iota
	draining
	failed
)

// upgradeWait is how long a new process may take until it is ready. It is a variable only for the
// tests.
var upgradeWait = time.Minute

// event is something that has happened to an upgrade.
type event struct {
	message          // a message of the new process, if Ready
	ended     string // how the new process has ended
	timedOut  bool   // it was not ready in time
	expired   bool   // drain has passed
	checkIdle bool   // it is time to check whether connections are left
	idle      bool   // no connection is left
}

// program is how the process was started.
type program struct {
	path string
	args []string // with the name of the program
	// ofInit says that process 1 has started this one, or may have.
	ofInit bool
}

// findProgram is called at the start. It keeps the path by which the program was called. If that is
// a link, an upgrade starts the version to which the link leads by then.
func findProgram(args []string) program {
	name := os.Args[0]
	p := program{args: append([]string{name}, args...),
		ofInit: os.Getppid() == 1 && !findStarter().orphan()}
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

// underWay reports whether there is a new process, serving or not.
func (u *upgrade) underWay() bool { return u != nil && u.state != failed }

// events returns the channel of the upgrade's events, or nil.
func (u *upgrade) events() <-chan event {
	if u == nil {
		return nil
	}
	return u.happened
}

// send reports an event. Goroutines of the upgrade call it.
func (u *upgrade) send(e event) {
	select {
	case u.happened <- e:
	case <-u.done:
	}
}

// giveUp is called when this process stops. It ends a new process that is not ready.
func (u *upgrade) giveUp() {
	if !u.underWay() {
		return
	}
	if u.state == starting {
		_ = u.process.Kill() // it may have ended
	}
	u.purgeReceiver.end()
	u.end()
}

// end ends the goroutines of the upgrade. The one of watch waits for the new process.
func (u *upgrade) end() {
	if u.state != draining { // otherwise the end of this process closes it
		_ = u.reports.Close()
	}
	u.limit.Stop()
	u.purgeSender.end()
	close(u.done)
}

// replaced reports whether a new process has taken the place of this one.
func (s *server) replaced() bool { return s.upgrade != nil && s.upgrade.state == draining }

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
	case s.program.ofInit && s.manager == nil:
		// It may be the init of a container, such as tini or that of docker --init, which ends with the
		// process that it has started, even if others run.
		s.failedUpgrade("process 1 has started this one, and nothing tells it (NOTIFY_SOCKET) that " +
			"another one goes on: with the end of this one, its container or service would end")
		return
	}
	if !s.sandbox.executes() {
		s.failedUpgrade("[confine] keeps this process from executing a program; a new one needs a " +
			"restart")
		return
	}
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
	news, said, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer said.Close()
	sender, purges, err := s.sendPurges()
	if err != nil {
		news.Close()
		return nil, err
	}
	reports, reported, err := os.Pipe()
	if err != nil {
		news.Close()
		sender.end()
		if purges != nil {
			purges.Close()
		}
		return nil, err
	}
	defer reports.Close()
	started := false
	defer func() {
		if purges != nil {
			purges.Close()
		}
		if !started {
			sender.end()
			news.Close()
			reported.Close()
		}
	}()

	// Numbers of descriptors and not *os.File: the latter, once asked for its number, lets reads and
	// writes wait in the kernel, and the loops share that state.
	files := []uintptr{0, 1, 2}
	give := func(fd int) int {
		files = append(files, uintptr(fd))
		return len(files) - 1
	}
	h := handover{PID: os.Getpid(), Sockets: map[string]*sockets.Socket{},
		Messages: give(int(said.Fd())), Reports: give(int(reports.Fd())),
		Upstreams: s.observed.states()}
	for a, l := range s.listeners {
		if a.Network == "systemd" {
			continue
		}
		h.Sockets[a.String()] = l.socket.ForProcess(give)
	}
	if s.debug != nil {
		h.Sockets[debugName(s.debug.address)] = s.debug.socket.ForProcess(give)
	}
	inherited, _ := sockets.Inherited() // all of them: the configuration may name others by now
	for name, fds := range inherited {
		s := &sockets.Socket{Display: "systemd:" + name}
		for _, fd := range fds {
			s.FDs = append(s.FDs, give(fd))
		}
		h.Sockets[s.Display] = s
	}
	if purges != nil {
		earlier, err := s.purgeReceiver.duplicatePipes()
		if err != nil {
			return nil, err
		}
		defer sockets.CloseAll(earlier)
		h.Purges = give(int(purges.Fd()))
		for _, fd := range earlier {
			h.EarlierPurges = append(h.EarlierPurges, give(fd))
		}
	}
	if s.pid != nil {
		h.PIDFile, h.PIDFileFD = s.pid.path, give(int(s.pid.file.Fd()))
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	env := slices.DeleteFunc(os.Environ(), func(v string) bool {
		// The number is this process's. Without it, the interval is for every process that inherits it.
		return v == "WATCHDOG_PID="+strconv.Itoa(os.Getpid())
	})
	env = append(env, upgradeVariable+"="+string(text))
	attr := new(syscall.SysProcAttr)
	if s.manager != nil {
		// systemd waits for the end of the main process only if that is its own child. It kills any other
		// at once when the service stops.
		attr.Cloneflags = unix.CLONE_PARENT
	}
	pid, err := syscall.ForkExec(s.program.path, s.program.args,
		&syscall.ProcAttr{Env: env, Files: files, Sys: attr})
	if err != nil {
		return nil, &os.PathError{Op: "start", Path: s.program.path, Err: err}
	}
	process, err := os.FindProcess(pid)
	if err != nil { // never on Linux
		_ = syscall.Kill(pid, syscall.SIGKILL)
		return nil, err
	}
	u := &upgrade{process: process, messages: news, happened: make(chan event),
		done: make(chan struct{}), reports: reported, purgeSender: sender,
		purgeReceiver: s.purgeReceiver}
	started = true
	u.limit = time.AfterFunc(upgradeWait, func() { u.send(event{timedOut: true}) })
	go u.watch()
	return u, nil
}

// watch reports the messages of the new process, and its end.
func (u *upgrade) watch() {
	defer u.messages.Close()
	ready := false
	read := json.NewDecoder(u.messages)
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
		ready = ready || m.Ready
		u.send(event{message: m})
	}
	state, err := u.process.Wait()
	e := event{}
	switch {
	case errors.Is(err, unix.ECHILD): // it is the manager's child; the end of its messages is its end
		if !ready {
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
	u.send(e)
}

// upgraded acts on an event. It reports whether this process may end.
func (s *server) upgraded(e event) (over bool) {
	u := s.upgrade
	switch {
	case u.state == failed: // the event was on its way
	case e.Ready:
		if u.state == starting {
			s.handOver(e.message)
		}
	case e.timedOut:
		if u.state == starting {
			u.timedOut = true
			_ = u.process.Kill()
		}
	case e.idle:
		s.own.Info("drained")
		return true
	case e.expired:
		s.own.Info("drain is over", "connections", s.openConnections())
		return true
	case e.checkIdle:
		s.checkIdle()
	case e.ended != "" && u.state == starting:
		u.end()
		u.state = failed
		if u.timedOut {
			e.ended = fmt.Sprintf("it was not ready within %v", upgradeWait)
		}
		s.failedUpgrade(e.ended)
		if u.reload {
			s.hup()
		}
	}
	return false
}

// failedUpgrade logs why there is no new process.
func (s *server) failedUpgrade(why string) {
	s.own.Error("upgrade failed, this process goes on", "program", s.program.path, "error", why)
	s.reportUpgrade("failed: %s", why)
}

// reportUpgrade reports the result to the command that has asked for the upgrade.
func (s *server) reportUpgrade(format string, args ...any) {
	if err := s.pid.report(fmt.Sprintf(format, args...)); err != nil {
		s.own.Warn("the result of the upgrade cannot be written", "error", err)
	}
}
