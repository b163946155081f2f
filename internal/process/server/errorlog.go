package server

import (
	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/process/config"
)

// ownLog returns the log that [error_log] is about; nil: the program has given the server a logger.
func (s *server) ownLog() *asynclog.Log {
	if s.source.Code != nil {
		return nil
	}
	return asynclog.Of(s.log)
}

// errorLog is what [error_log] of a configuration says, ready to come into force. A nil errorLog
// does nothing.
type errorLog struct {
	logs *asynclog.Log
	keys *config.ErrorLog
	to   *accesslog.Output // nil: stderr
}

// openErrorLog opens the file or the daemon for the server's own log. A file is opened anew even if
// it is open: a rotation may have moved it away.
func (s *server) openErrorLog(c *config.Config) (*errorLog, error) {
	logs := s.ownLog()
	if logs == nil {
		return nil, nil
	}
	to, err := c.ErrorLog.Open(s.own)
	if err != nil {
		return nil, err
	}
	return &errorLog{logs, &c.ErrorLog, to}, nil
}

// use makes the log write by e from now on.
func (e *errorLog) use() {
	if e == nil {
		return
	}
	e.keys.Apply(e.logs)
	if e.to != nil {
		e.logs.SetOutput(e.to)
	} else {
		e.logs.SetOutput(nil)
	}
}

// discard undoes openErrorLog.
func (e *errorLog) discard() {
	if e != nil && e.to != nil {
		e.to.Discard()
	}
}

// reopenErrorLog opens the file anew, since a log rotation may have moved the old one away.
func (s *server) reopenErrorLog() {
	if !s.config.ErrorLog.IsFile() {
		return
	}
	next, err := s.openErrorLog(s.config)
	switch {
	case err != nil:
		s.own.Error("error log: cannot be reopened, the old file stays", "path", s.config.ErrorLog.Path,
			"error", err)
	case next != nil:
		next.use()
		s.own.Info("error log reopened", "path", s.config.ErrorLog.Path)
	}
}
