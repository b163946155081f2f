package confpath

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// MaxFile bounds a file that a configuration names, in bytes: more is a mistake.
const MaxFile = 16 << 20

// Read returns what is in a regular file of at most so many bytes. Anything else is an error: a
// pipe could hold up the reader for ever.
func Read(path string, most int64) ([]byte, error) {
	f, mode, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if !mode.IsRegular() {
		return nil, fmt.Errorf("%s: not a regular file", path)
	}
	return all(f, most)
}

// patience is how long a pipe's writers may take.
const patience = 30 * time.Second

// ReadOnce is Read for what may also be a device, such as /dev/null, or a pipe, such as /dev/stdin
// or a FIFO. A pipe must have its writer already, has 30 s to its end, and is an error if it is
// empty: as it is when it is read again.
func ReadOnce(path string, most int64) ([]byte, error) {
	f, mode, err := open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	pipe := mode&os.ModeNamedPipe != 0
	if pipe {
		if err := f.SetReadDeadline(time.Now().Add(patience)); err != nil {
			return nil, err
		}
	}
	text, err := all(f, most)
	if err == nil && len(text) == 0 && pipe {
		err = fmt.Errorf("%s: an empty pipe; what was in it can be read once only", path)
	}
	return text, err
}

func open(path string) (*os.File, fs.FileMode, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // open(2) waits for a pipe's writer
	if err != nil {
		return nil, 0, err
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return nil, 0, err
	}
	return f, info.Mode(), nil
}

func all(f *os.File, most int64) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(f, most+1))
	if int64(len(text)) > most {
		return nil, fmt.Errorf("%s: longer than %d KiB", f.Name(), most>>10)
	}
	return text, err
}
