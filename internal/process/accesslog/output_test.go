package accesslog_test

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
)

// TestOutputDatagrams: lines of the server's own log have the severity of their level, as text and
// as JSON, whatever a client has written into them.
func TestOutputDatagrams(t *testing.T) {
	dir := t.TempDir()
	pid := fmt.Sprint(os.Getpid())
	udp := daemon(t, "udp", "127.0.0.1:0")
	local, journal := daemon(t, "unixgram", dir+"/log"), daemon(t, "unixgram", dir+"/journal")
	for _, json := range []bool{false, true} {
		l := asynclog.New(new(logtext.Buffer))
		l.SetJSON(json)
		l.SetLevel(slog.LevelDebug)
		for _, level := range []struct {
			slog.Level
			severity int
		}{{slog.LevelDebug, 7}, {slog.LevelInfo, 6}, {slog.LevelWarn, 4}, {slog.LevelError, 3},
			{slog.LevelError + 1, 3}} {
			n := fmt.Sprint(level.severity)
			for _, to := range []struct {
				path string
				want string
			}{{"syslog:unix:" + dir + "/log", "<" + fmt.Sprint(24+level.severity) + ">"},
				{"syslog:" + udp.LocalAddr().String(), "<" + fmt.Sprint(24+level.severity) + ">1 "},
				{"journald:unix:" + dir + "/journal",
					"PRIORITY=" + n + "\nSYSLOG_IDENTIFIER=lwango\nMESSAGE="}} {
				out := must.Get(accesslog.OpenOutput(
					must.Get(accesslog.CheckOutput(dir, to.path))(t), logtext.Quiet))(t)
				l.SetOutput(out)
				l.Flush(time.Minute)
				l.Logger().Log(t.Context(), level.Level, "m level=ERROR",
					"target", ` level=ERROR,"level":"ERROR"`)
				l.Flush(time.Minute)
				from := local
				switch {
				case strings.HasPrefix(to.path, "journald"):
					from = journal
				case !strings.Contains(to.path, "unix"):
					from = udp
				}
				got := receive(t, from)
				if !strings.HasPrefix(got, to.want) || !strings.Contains(got, "m level=ERROR") ||
					from == udp && !strings.Contains(got, " lwango "+pid+" error - ") {
					t.Errorf("%s: %v: %q", to.path, level.Level, got)
				}
			}
		}
		l.Close(time.Minute)
		l.SetOutput(nil)
	}
}

// TestOutputFull: a file that takes nothing returns what it has not taken.
func TestOutputFull(t *testing.T) {
	out := must.Get(accesslog.OpenOutput("/dev/full", logtext.Quiet))(t)
	defer out.Close()
	if n, err := out.Write([]byte("a\nbc\n")); n != 0 || err == nil {
		t.Errorf("%d, %v", n, err)
	}
	path := filepath.Join(t.TempDir(), "log")
	unused := must.Get(accesslog.OpenOutput(path, logtext.Quiet))(t)
	unused.Discard()
	if _, err := os.Stat(path); err == nil {
		t.Error("the file is there")
	}
}
