package server

import (
	"log/slog"

	"github.com/lwango/lwango/conn"
)

const LogBufferSize = bufferSize

func LogLine(format string, e *conn.AccessEntry) string {
	var c clock
	return string((*formatNamed(format))(nil, e, c.text(e.Time)))
}

// AccessLog makes the log's methods visible.
type AccessLog struct{ *accessLog }

func OpenAccessLog(path string, log *slog.Logger) (AccessLog, error) {
	a, err := openAccessLog(&AccessLogConfig{Path: path}, log)
	return AccessLog{a}, err
}

func (a AccessLog) Reopen(path string) error {
	f, err := openLogFile(path)
	if err == nil {
		a.reopen(f, nil)
	}
	return err
}

func (a AccessLog) Close() { a.close() }

// ReloadAndLog is what a SIGHUP does.
func (s *Server) ReloadAndLog() { s.logReload(s.Reload()) }
