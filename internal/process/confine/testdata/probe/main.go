// Probe confines itself to the folder of its argument, tries what it should not be able to do, and
// prints what has come of it. It must be built without cgo.
package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/process/confine"
)

func main() {
	dir := os.Args[1]
	// Some threads are there before, and one is locked.
	for range 4 {
		go func() { runtime.LockOSThread(); select {} }()
	}
	time.Sleep(time.Millisecond)
	must(confine.Supported())
	var files *confine.Files
	if confine.Landlock() > 0 {
		var err error
		files, err = confine.NewFiles([]string{filepath.Join(dir, "read"), "/proc", "/none"},
			[]string{filepath.Join(dir, "write"), "/dev/null"})
		must(err)
	}
	must(confine.LimitCapabilities())
	if os.Geteuid() == 0 {
		must(confine.User{ID: 65534, Group: 65533, Groups: []int{1, 2}}.Become())
	}
	must(confine.DropCapabilities())
	must(confine.NoNewPrivileges())
	if files != nil {
		must(files.Restrict())
		files.Close()
		try("read a listed folder", read(dir+"/read/file"))
		try("read beside it", read(dir+"/file"))
		try("follow a link out", read(dir+"/read/link"))
		try("write to a folder to read", os.WriteFile(dir+"/read/new", nil, 0o600))
		try("write", os.WriteFile(dir+"/write/new", nil, 0o600))
		try("rename", os.Rename(dir+"/write/new", dir+"/write/newer"))
		try("remove", os.Remove(dir+"/write/newer"))
		l, err := net.Listen("unix", dir+"/write/socket")
		try("make a socket", err)
		if err == nil {
			l.Close()
		}
		try("execute", exec.Command("/bin/true").Run())
	}
	if len(os.Args) > 2 {
		must(confine.FilterCalls())
		try("start a process", exec.Command("/bin/true").Run())
		_, err := unix.Socket(unix.AF_PACKET, unix.SOCK_RAW, 0)
		try("open a packet socket", err)
		_, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
		try("open a TCP socket", err)
		_, err = unix.Mmap(-1, 0, 4096, unix.PROT_READ|unix.PROT_EXEC, unix.MAP_PRIVATE|unix.MAP_ANON)
		try("map executable memory", err)
		m, err := unix.Mmap(-1, 0, 4096, unix.PROT_READ, unix.MAP_PRIVATE|unix.MAP_ANON)
		must(err)
		try("make memory executable", unix.Mprotect(m, unix.PROT_READ|unix.PROT_EXEC))
		try("unshare", unix.Unshare(unix.CLONE_NEWUSER))
		_, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, 0, 0, 0)
		try("io_uring", errno)
		_, _, errno = unix.Syscall(unix.SYS_CLONE3, 0, 0, 0)
		try("clone3", errno)
		_, _, errno = unix.Syscall(4000, 0, 0, 0)
		try("a newer call", errno)
	}
	work()
	tasks, err := os.ReadDir("/proc/self/task")
	must(err)
	seen := map[string]bool{}
	for _, task := range tasks {
		text, err := os.ReadFile("/proc/self/task/" + task.Name() + "/status")
		if errors.Is(err, fs.ErrNotExist) { // it has ended
			continue
		}
		must(err)
		var is []string
		for line := range strings.Lines(string(text)) {
			switch name, value, _ := strings.Cut(line, ":"); name {
			case "Uid", "Gid", "Groups", "CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp":
				is = append(is, name+" "+strings.Join(strings.Fields(value), " "))
			}
		}
		if line := strings.Join(is, ", "); !seen[line] {
			fmt.Println("threads:", line)
			seen[line] = true
		}
	}
}

// work makes the runtime do what it does: new threads, much memory, collections, timers.
func work() {
	var all sync.WaitGroup
	for range 20 {
		all.Go(func() {
			runtime.LockOSThread() // so the thread ends with the goroutine
			b := make([][]byte, 0)
			for range 50 {
				b = append(b, make([]byte, 100_000))
			}
			runtime.Gosched()
			time.Sleep(time.Millisecond)
			runtime.KeepAlive(b)
		})
	}
	all.Wait()
	runtime.GC()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(err)
	c, err := net.Dial("tcp", l.Addr().String())
	must(err)
	c.Close()
	l.Close()
	if _, err := net.Interfaces(); err != nil {
		fmt.Println("interfaces:", err)
	}
}

func read(path string) error {
	_, err := os.ReadFile(path)
	return err
}

func try(what string, err error) {
	var errno syscall.Errno
	switch {
	case errors.As(err, &errno) && errno != 0:
		fmt.Printf("%s: %s\n", what, unix.ErrnoName(errno))
	case err != nil && !errors.As(err, &errno):
		fmt.Printf("%s: %v\n", what, err)
	default:
		fmt.Printf("%s: yes\n", what)
	}
}

func must(err error) {
	if err != nil {
		fmt.Println("failed:", err)
		os.Exit(1)
	}
}
