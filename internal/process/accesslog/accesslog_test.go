package accesslog_test

import (
	"fmt"
	"log/slog"
	"testing"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

func TestMain(m *testing.M) { leak.Main(m) }

// accessLog is an open log of a server that has no other.
type accessLog struct {
	*accesslog.Config
	*accesslog.Logs
}

// tryOpen opens a log in the format combined.
func tryOpen(t testing.TB, path string, log *slog.Logger) (accessLog, error) {
	t.Helper()
	file := settings.Parse("t.conf", "/", fmt.Sprintf("path = %q", path))
	c := new(accesslog.Config)
	file.Root().Decode(c)
	c.Check("/", nil, nil)
	must.Do(t, file.Err())
	a := accessLog{c, accesslog.New(log, log, nil)}
	sinks, err := a.Open([]*accesslog.Config{c})
	if err == nil {
		a.Use([]*accesslog.Config{c}, sinks)
	}
	return a, err
}

// open opens a log whose complaints are text.
func open(t testing.TB, path string) (accessLog, *logtext.Buffer) {
	t.Helper()
	text := new(logtext.Buffer)
	a := must.Get(tryOpen(t, path, slog.New(slog.NewTextHandler(text, nil))))(t)
	return a, text
}

// format gives the lines another format.
func (a accessLog) format(format string) {
	a.Format = format
	a.Check("/", nil, nil)
}
