package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	startTime = 20 * time.Second // PHP-FPM has to listen within this
	stopTime  = 5 * time.Second  // and to end within this
)

// find looks for an executable in PATH and in the folders of administrators' programs, which are
// not in every user's PATH. If none has that very name, it takes the one with the highest version
// behind the name, as distributions write it.
func find(name string) (path string, err error) {
	if strings.Contains(name, "/") {
		return exec.LookPath(name)
	}
	var highest []int
	dirs := append(filepath.SplitList(os.Getenv("PATH")), "/usr/local/sbin", "/usr/sbin")
	for _, dir := range dirs {
		if !filepath.IsAbs(dir) {
			continue // so that a file of the working directory is not run by accident
		}
		if p, err := exec.LookPath(filepath.Join(dir, name)); err == nil {
			return p, nil
		}
		entries, _ := os.ReadDir(dir) // PATH may name folders that do not exist
		for _, e := range entries {
			digits, ok := strings.CutPrefix(e.Name(), name)
			v := version(digits)
			if !ok || slices.Compare(v, highest) <= 0 {
				continue
			}
			if p, err := exec.LookPath(filepath.Join(dir, e.Name())); err == nil {
				path, highest = p, v
			}
		}
	}
	if path == "" {
		return "", fmt.Errorf("there is no %s in PATH, /usr/local/sbin or /usr/sbin; "+
			"the package is called php-fpm (apt-get install php-fpm)", name)
	}
	return path, nil
}

// version returns the numbers of a version such as "8.10", or nil.
func version(s string) (v []int) {
	for part := range strings.SplitSeq(s, ".") {
		n, err := strconv.Atoi(part)
		if err != nil {
			return nil
		}
		v = append(v, n)
	}
	return v
}

// fpm is a PHP-FPM that we have started.
type fpm struct {
	cmd   *exec.Cmd
	log   *os.File      // where it writes its log
	ready chan struct{} // closed when it listens
	ended chan struct{} // closed when all its processes have ended
	err   error         // why it has ended; set before ended is closed
}

// start starts PHP-FPM in dir and waits until it listens. PHP-FPM ends with this program, in
// whatever way that ends.
func start(ctx context.Context, path, dir string) (*fpm, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	f := &fpm{log: r, ready: make(chan struct{}), ended: make(chan struct{})}
	// -n: no php.ini, so that the sample works the same on every machine. -F, -O: in the
	// foreground, with its log on stderr.
	config := filepath.Join(dir, "php-fpm.conf")
	f.cmd = exec.Command(path, "-n", "-F", "-O", "-p", dir, "-y", config)
	f.cmd.Dir = dir
	f.cmd.Env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"))
	f.cmd.Stdout, f.cmd.Stderr = w, w
	f.cmd.SysProcAttr = &syscall.SysProcAttr{
		// A group of its own: Ctrl-C is for this program, and PHP is needed until the requests in
		// flight are answered.
		Setpgid: true,
		// For the case that this program is killed. SIGTERM, since PHP-FPM's workers survive a
		// SIGKILL of their master and go on.
		Pdeathsig: syscall.SIGTERM,
	}
	begun := make(chan error)
	go f.run(begun)
	err = <-begun
	w.Close() // PHP-FPM has its own
	if err != nil {
		r.Close()
		return nil, err
	}
	select {
	case <-f.ready:
		return f, nil
	case <-f.ended:
		return nil, f.err
	case <-ctx.Done():
		err = context.Cause(ctx)
	case <-time.After(startTime):
		err = fmt.Errorf("it does not listen after %v", startTime)
	}
	f.stop()
	return nil, err
}

// run starts the process and waits for its end. The kernel sends Pdeathsig when the OS thread ends
// that has started the process, not when the program ends; so this goroutine keeps its thread for
// itself until the process has ended.
func (f *fpm) run(begun chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	err := f.cmd.Start()
	begun <- err
	if err != nil {
		return
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		f.read()
	}()
	err = f.cmd.Wait()
	_ = syscall.Kill(-f.cmd.Process.Pid, syscall.SIGKILL) // workers survive a master that is killed
	_ = f.log.SetReadDeadline(time.Now().Add(time.Second))
	<-read
	f.log.Close()
	if f.err = fmt.Errorf("php-fpm has ended: %w", err); err == nil {
		f.err = errors.New("php-fpm has ended")
	}
	close(f.ended)
}

// read logs what PHP-FPM writes, until the last process that can write has ended. Lines are like
// "[21-Nov-2026 13:22:02] NOTICE: ready to handle connections".
func (f *fpm) read() {
	for r := bufio.NewReader(f.log); ; {
		line, _, err := r.ReadLine() // a line that is too long comes in pieces
		if err != nil {
			return
		}
		text := string(line)
		if _, rest, ok := strings.Cut(text, "] "); ok && text[0] == '[' {
			text = rest
		}
		level := slog.LevelInfo
		switch kind, rest, ok := strings.Cut(text, ": "); {
		case ok && kind == "NOTICE":
			text = rest
		case ok && kind == "WARNING":
			text, level = rest, slog.LevelWarn
		case ok && (kind == "ERROR" || kind == "ALERT"):
			text, level = rest, slog.LevelError
		}
		slog.Log(context.Background(), level, "php-fpm", "message", text)
		if text == "ready to handle connections" {
			select {
			case <-f.ready: // once more, after a SIGUSR2
			default:
				close(f.ready)
			}
		}
	}
}

// stop ends PHP-FPM, and waits for that. It reports whether PHP-FPM was running until now.
func (f *fpm) stop() bool {
	select {
	case <-f.ended:
		return false
	default:
	}
	_ = f.cmd.Process.Signal(syscall.SIGTERM) // an error means that it has just ended
	select {
	case <-f.ended:
	case <-time.After(stopTime):
		slog.Warn("php-fpm does not end, and is killed")
		_ = f.cmd.Process.Kill()
		<-f.ended
	}
	return true
}
