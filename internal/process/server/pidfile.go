package server

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// pidFile is the file with the process ID, which is locked while the process runs. The lock is that
// of an open file (F_OFD_SETLK, fcntl(2)): the next process inherits it, so there is no moment
// without it, and nobody has to guess whether the process ID in the file is that of a running
// server. A nil pidFile means none.
type pidFile struct {
	path string
	file *os.File
}

// openPIDFile makes the file, or takes one that no process has locked.
func openPIDFile(path string) (*pidFile, error) {
	for {
		f, err := openRegular(path, os.O_RDWR|os.O_CREATE)
		if err != nil {
			return nil, err
		}
		lock := wholeFile(unix.F_WRLCK)
		if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &lock); err != nil {
			pid, _ := readPID(f)
			f.Close()
			if errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES) {
				return nil, fmt.Errorf("%s: a server runs already, as process %d", path, pid)
			}
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		p := &pidFile{path, f}
		if p.inPlace() { // an earlier server may have removed it between open and lock
			return p, f.Truncate(0) // the process ID there is that of a server which was killed
		}
		f.Close()
	}
}

// openRegular opens a file, and refuses links and pipes: another user may have put one into the
// folder, which may be /tmp, or belong to the server's user while root runs a command.
func openRegular(path string, how int) (*os.File, error) {
	f, err := os.OpenFile(path, how|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o644)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = &os.PathError{Op: "open", Path: path, Err: errors.New("is no regular file")}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

func wholeFile(kind int16) unix.Flock_t { return unix.Flock_t{Type: kind, Whence: io.SeekStart} }

// inPlace reports whether path still leads to the file.
func (p *pidFile) inPlace() bool {
	open, err := p.file.Stat()
	there, err2 := os.Lstat(p.path)
	return err == nil && err2 == nil && os.SameFile(open, there)
}

// write puts a process ID into the file. A reader never finds the file empty.
func (p *pidFile) write(pid int) error {
	if p == nil {
		return nil
	}
	text := strconv.Itoa(pid) + "\n"
	if _, err := p.file.WriteAt([]byte(text), 0); err != nil {
		return err
	}
	return p.file.Truncate(int64(len(text)))
}

// remove removes the file, and the result of an upgrade beside it.
func (p *pidFile) remove() {
	if p == nil {
		return
	}
	if p.inPlace() {
		_ = os.Remove(p.path)
		_ = os.Remove(resultOf(p.path))
	}
	p.file.Close()
}

// close leaves the file to another process.
func (p *pidFile) close() {
	if p != nil {
		p.file.Close()
	}
}

func readPID(f *os.File) (int, error) {
	b := make([]byte, 32)
	n, err := f.ReadAt(b, 0)
	if err != nil && err != io.EOF {
		return 0, err
	}
	line, _, _ := strings.Cut(string(b[:n]), "\n")
	pid, err := strconv.Atoi(line)
	if err != nil || pid <= 0 {
		return 0, fmt.Errorf("%s: expected the number of a process, found %q", f.Name(), line)
	}
	return pid, nil
}

// resultOf is the path of the file with the result of the last upgrade.
func resultOf(pidFile string) string { return pidFile + ".upgrade" }

// report writes the result of an upgrade to the file that a command has made for it, if a command
// waits for a result. What happens later goes to the log alone.
func (p *pidFile) report(text string) error {
	if p == nil {
		return nil
	}
	f, err := openRegular(resultOf(p.path), os.O_WRONLY)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() > 0 {
		return err
	}
	_, err = f.WriteString(text + "\n")
	return err
}
