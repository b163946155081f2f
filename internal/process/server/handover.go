package server

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lwango/lwango/internal/process/sockets"
	"golang.org/x/sys/unix"
)

// handover is what a process hands to the next one, in JSON, by the environment variable
// upgradeVariable. Numbers are those of descriptors that the new process inherits.
type handover struct {
	Messages int                        `json:"news"`    // a pipe; see message
	PID      int                        `json:"pid"`     // of the old process
	Sockets  map[string]*sockets.Socket `json:"sockets"` // by address.String, or debugName

	Reports int `json:"reports,omitempty"` // a pipe; see drainReports

	Upstreams map[string]string `json:"upstreams,omitempty"` // that are not up, see metrics.Upstreams

	// a pipe with the purges of the old process, a line each; see purgeSender
	Purges int `json:"purges,omitempty"`
	// EarlierPurges are the pipes that the old process reads, of the processes before it, the last one
	// first; see purgeReceiver.
	EarlierPurges []int `json:"earlier_purges,omitempty"`

	PIDFile   string `json:"pid_file,omitempty"`
	PIDFileFD int    `json:"pid_file_fd,omitempty"`

	messages *os.File
	reports  *os.File        // of Reports; nil: none
	purges   []*os.File      // of Purges and EarlierPurges
	used     map[string]bool // of Sockets
	pid      bool            // the file of PIDFile is used
}

// message is what the new process sends to the old one, a JSON value. An old process ignores values
// that it does not know.
type message struct {
	Ready   bool     `json:"ready"`
	Serves  []string `json:"serves"`             // addresses of the old process
	PIDFile bool     `json:"pid_file,omitempty"` // it has the file as well
}

const upgradeVariable = "LWANGO_UPGRADE"

// takeHandover returns what the old process has handed over, or nil. It removes the variable, so
// that a child process does not take it for its own.
func takeHandover() (*handover, error) {
	text := os.Getenv(upgradeVariable)
	os.Unsetenv(upgradeVariable)
	if text == "" {
		return nil, nil
	}
	h := &handover{used: map[string]bool{}}
	if err := json.Unmarshal([]byte(text), h); err != nil {
		return nil, fmt.Errorf("%s: %w", upgradeVariable, err)
	}
	fds := []int{h.Messages}
	purges := h.EarlierPurges
	if h.Purges > 0 {
		purges = append([]int{h.Purges}, purges...)
	}
	fds = append(fds, purges...)
	if h.PIDFileFD > 0 {
		fds = append(fds, h.PIDFileFD)
	}
	if h.Reports > 0 {
		fds = append(fds, h.Reports)
	}
	for _, s := range h.Sockets {
		fds = append(fds, s.FDs...)
	}
	for _, fd := range fds {
		if fd < sockets.FirstInherited {
			return nil, fmt.Errorf("%s: descriptor %d", upgradeVariable, fd)
		}
		unix.CloseOnExec(fd)
	}
	for address, s := range h.Sockets {
		if err := s.Adopt(); err != nil {
			return nil, fmt.Errorf("%s: %s: %w", upgradeVariable, address, err)
		}
		if name, ok := strings.CutPrefix(address, "systemd:"); ok {
			sockets.Inherit(name, s.FDs)
			h.used[address] = true
		}
	}
	h.messages = os.NewFile(uintptr(h.Messages), "upgrade")
	if h.Reports > 0 {
		_ = unix.SetNonblock(h.Reports, true)
		h.reports = os.NewFile(uintptr(h.Reports), "reports")
	}
	for _, fd := range purges {
		_ = unix.SetNonblock(fd, true) // so that a wait for its end takes no OS thread
		h.purges = append(h.purges, os.NewFile(uintptr(fd), "purges"))
	}
	return h, nil
}

// open returns the sockets with a name, for e and n loops; nil if the old process had none, or they
// are a service manager's.
func (h *handover) open(name string, e *sockets.Endpoint, n int) (*sockets.Socket, error) {
	if h == nil {
		return nil, nil
	}
	s := h.Sockets[name]
	if s == nil || len(s.FDs) == 0 || h.used[name] {
		return nil, nil
	}
	h.used[name] = true
	return s, s.Spread(e, n)
}

// ports adds the ports of the handed sockets to ours.
func (h *handover) ports(ours map[int]bool) {
	if h == nil {
		return
	}
	for name := range h.Sockets {
		if a, err := sockets.ParseAddress(name, "/"); err == nil {
			ours[a.Port()] = true
		}
	}
}

// pidFile returns the file at path, which is locked already, or nil if it was not handed over.
func (h *handover) pidFile(path string) *pidFile {
	if h == nil || h.PIDFileFD == 0 || filepath.Clean(h.PIDFile) != filepath.Clean(path) {
		return nil
	}
	h.pid = true
	return &pidFile{path, os.NewFile(uintptr(h.PIDFileFD), path)}
}

// takeOver tells the old process that this one serves, and closes what this one does not need. The
// old process may have ended meanwhile.
func (s *server) takeOver(h *handover) {
	m := message{Ready: true, PIDFile: h.pid}
	for name, from := range h.Sockets {
		if !h.used[name] {
			from.Close()
			continue
		}
		m.Serves = append(m.Serves, name)
	}
	if h.PIDFileFD != 0 && !h.pid {
		unix.Close(h.PIDFileFD)
	}
	// From now on the files of UNIX sockets are this process's; before, an end would have taken them
	// away from the old one.
	for a, l := range s.listeners {
		if l.socket == h.Sockets[a.String()] {
			l.socket.OwnFile(a)
		}
	}
	if d := s.debug; d != nil && d.socket == h.Sockets[debugName(d.address)] {
		d.socket.OwnFile(d.address)
	}
	if err := json.NewEncoder(h.messages).Encode(m); err != nil {
		s.own.Warn("the process before has ended already", "pid", h.PID, "error", err)
	} else {
		s.own.Info("took over", "from", h.PID)
	}
	h.messages.Close()
	if err := s.pid.write(os.Getpid()); err != nil {
		s.own.Error("the number of the process cannot be written", "error", err)
	}
	s.obtainer.Obtain(s.config.ACME()) // from now on, the old process does not
}
