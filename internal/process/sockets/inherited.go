package sockets

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/sysio"
)

// FirstInherited is the descriptor with which inherited ones begin (sd_listen_fds(3)).
const FirstInherited = 3

// Inherited takes over the sockets that a service manager passed: LISTEN_FDS of them, if
// LISTEN_PID is this process, by the names in LISTEN_FDNAMES. It removes the variables, so that a
// child process does not take them for its own. Sockets without a name are called "unknown", as
// systemd's own library does. The sockets belong to the process: later calls return them again, for
// its other servers.
func Inherited() (map[string][]int, error) {
	passed.Lock()
	defer passed.Unlock()
	sockets, err := readInherited()
	if sockets != nil {
		passed.sockets = sockets
	}
	return passed.sockets, err
}

// passed has the sockets that Inherited has taken over.
var passed struct {
	sync.Mutex
	sockets map[string][]int // does not change
}

// Inherit adds sockets of the service manager that the old process has handed over.
func Inherit(name string, fds []int) {
	passed.Lock()
	defer passed.Unlock()
	if passed.sockets == nil {
		passed.sockets = map[string][]int{}
	}
	passed.sockets[name] = fds
}

func readInherited() (map[string][]int, error) {
	count, pid := os.Getenv("LISTEN_FDS"), os.Getenv("LISTEN_PID")
	nameList := os.Getenv("LISTEN_FDNAMES")
	for _, name := range []string{"LISTEN_FDS", "LISTEN_PID", "LISTEN_FDNAMES"} {
		os.Unsetenv(name)
	}
	if count == "" || pid != strconv.Itoa(os.Getpid()) {
		return nil, nil
	}
	n, err := strconv.ParseUint(count, 10, 16)
	if err != nil {
		return nil, fmt.Errorf("LISTEN_FDS=%q: expected a number", count)
	}
	names := strings.Split(nameList, ":")
	sockets := map[string][]int{}
	for i := range int(n) {
		fd := FirstInherited + i
		unix.CloseOnExec(fd)
		if err := adopt(fd); err != nil {
			return nil, fmt.Errorf("descriptor %d of LISTEN_FDS=%s: %w", fd, count, err)
		}
		name := "unknown"
		if i < len(names) && names[i] != "" {
			name = names[i]
		}
		sockets[name] = append(sockets[name], fd)
	}
	return sockets, nil
}

// adopt prepares a socket that others have made for a loop.
func adopt(fd int) error {
	listening, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_ACCEPTCONN)
	if err != nil || listening == 0 {
		return errors.New("not a listening socket")
	}
	if err := unix.SetNonblock(fd, true); err != nil {
		return os.NewSyscallError("fcntl", err)
	}
	sysio.SetInherited(fd)
	return nil
}

func notInherited(inherited map[string][]int) string {
	if len(inherited) == 0 {
		return "the service manager passed no sockets (LISTEN_FDS)"
	}
	return "no socket of that name was passed; there is " +
		strings.Join(slices.Sorted(maps.Keys(inherited)), ", ")
}
