package accesslog

import (
	"bytes"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"syscall"
	"time"
)

// sink is where the lines of an access log go. It belongs to the log's writer.
type sink interface {
	// write writes whole lines, and may wait. err is the first error, and lost how many lines were not
	// written. last says that another sink follows, and that these are the last lines for this one.
	write(lines []byte, last bool) (lost int, err error)
	// recoveryTime is how long there must be no error before the sink counts as recovered.
	recoveryTime() time.Duration
	close() error
}

// openSink opens the file or daemon that `path` of [access_log] or [error_log] names.
func openSink(path string, k kind, log *slog.Logger) (sink, error) {
	switch path {
	case "stderr:":
		return &fileSink{file: os.Stderr, log: log}, nil
	case "stdout:":
		return &fileSink{file: os.Stdout, log: log}, nil
	}
	if d := newDatagrams(path, k); d != nil {
		return d, nil
	}
	_, err := os.Lstat(path)
	missing := errors.Is(err, fs.ErrNotExist)
	f, err := openLogFile(path)
	if err != nil {
		return nil, err
	}
	return &fileSink{path: path, file: f, name: k.name, log: log, created: missing}, nil
}

// openLogFile opens a file for lines. A pipe without a reader is an error, and not a wait (open(2),
// ENXIO).
func openLogFile(path string) (*os.File, error) {
	// Readable by the owner and the group: a log has addresses and queries of people in it.
	return openTrusted(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE|syscall.O_NONBLOCK, 0o640)
}

// fileSink is a file, or a stream of the process.
type fileSink struct {
	path        string // "": a stream of the process, which stays open
	file        *os.File
	name        string // of the log
	log         *slog.Logger
	partialLine bool      // the last line is not complete
	checked     time.Time // when reopenIfMoved last compared path and file
	created     bool      // openSink has made the file
	openFailed  bool      // the file at path could not be opened, which was logged
}

// checkEvery is how often the writer checks whether a rotation has moved the file away.
const checkEvery = time.Second

// write implements sink. If the disk is full, a part of a line may be written; then the next line
// begins after a LF.
func (s *fileSink) write(lines []byte, last bool) (lost int, err error) {
	if !last {
		s.reopenIfMoved()
	}
	if s.partialLine {
		if _, err := s.file.Write([]byte{'\n'}); err != nil {
			return bytes.Count(lines, []byte{'\n'}), err
		}
		s.partialLine = false
	}
	n, err := s.file.Write(lines)
	if err != nil {
		s.partialLine = n > 0 && lines[n-1] != '\n'
		lost = bytes.Count(lines[n:], []byte{'\n'})
	}
	return lost, err
}

// reopenIfMoved opens the file anew if its path leads to another file, or to none: a rotation has
// moved the file away, and need not send a signal. If that fails, the lines go to the old file.
func (s *fileSink) reopenIfMoved() {
	if s.path == "" || time.Since(s.checked) < checkEvery {
		return
	}
	s.checked = time.Now()
	at, err := os.Stat(s.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err == nil && !at.Mode().IsRegular():
		return // a pipe is reopened by a signal only
	case err == nil:
		own, err := s.file.Stat()
		if err != nil || os.SameFile(at, own) {
			s.openFailed = false
			return
		}
	default:
		return // a folder that cannot be searched, perhaps for a while
	}
	f, err := openLogFile(s.path)
	if err != nil {
		if !s.openFailed {
			s.log.Error(s.name+": cannot be reopened, the old file stays", "path", s.path,
				"error", err)
		}
		s.openFailed = true
		return
	}
	_ = s.file.Close()
	s.file, s.partialLine, s.openFailed = f, false, false
	s.log.Info(s.name+" reopened, the file was moved away", "path", s.path)
}

// removeUnused removes the file if it was made for the sink, and nothing was written to it.
func (s *fileSink) removeUnused() {
	if !s.created {
		return
	}
	at, err := os.Lstat(s.path)
	own, err2 := s.file.Stat()
	if err == nil && err2 == nil && os.SameFile(at, own) && own.Size() == 0 {
		_ = os.Remove(s.path)
	}
}

func (s *fileSink) recoveryTime() time.Duration { return 0 }

func (s *fileSink) close() error {
	if s.path == "" {
		return nil
	}
	return s.file.Close()
}
