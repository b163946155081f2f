package fastcgi_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/fastcgi/internal/fcgitest"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
)

// TestPrintable: no text that an application logs moves a terminal's cursor or looks like a line of
// its own.
func TestPrintable(t *testing.T) {
	for in, want := range map[string]string{
		"plain, größer, 日本":         "plain, größer, 日本",
		"two\r\nlines\tof\x00\x7f":  "two | lines of<00><7f>",
		"\x1b[31m \u009b31m \u0085": "<1b>[31m <9b>31m <85>",
		// Not UTF-8: a text that was cut, or a terminal's C1.
		"\x9b31m \xff \xe6\x97":       "<9b>31m <ff> <e6><97>",
		"\u202etxt.exe \u2028 \u200b": "<202e>txt.exe <2028> <200b>",
	} {
		if got := fastcgi.Printable([]byte(in)); got != want {
			t.Errorf("%q: %q, want %q", in, got, want)
		}
	}
}

// keeping is a log that keeps its records, and so what these refer to.
type keeping struct {
	mu  sync.Mutex
	all []slog.Record
}

func (*keeping) Enabled(context.Context, slog.Level) bool { return true }
func (k *keeping) WithAttrs([]slog.Attr) slog.Handler     { return k }
func (k *keeping) WithGroup(string) slog.Handler          { return k }
func (k *keeping) Handle(_ context.Context, r slog.Record) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.all = append(k.all, r)
	return nil
}

// TestScriptsOfLog: what the log is told of a script stays true behind the request.
func TestScriptsOfLog(t *testing.T) {
	up := fcgitest.Start(t, "unix", func(c *fcgitest.Conn) {
		c.Read()
		c.Stderr("oops")
		c.Stdout(okHead)
		c.EndStatus(7, 0)
	})
	log := new(keeping)
	s := fastcgi.Defaults
	s.Address, s.ScriptPath, s.CheckFile = []string{up.Address}, t.TempDir(), false
	env := handlers.Env{Prefix: "/", Logger: slog.New(log)}
	m, _ := registry().Module("fastcgi")
	p := module.Start(t, modes.Direct, "/", must.Get(m.Build(&s, env))(t))
	c := p.Dial()
	defer c.Close()
	for _, name := range []string{"first", "other", "third"} {
		fmt.Fprintf(c, "GET /%s.php HTTP/1.1\r\nHost: a\r\n\r\n", name)
		if g := read(c.R, "GET"); g.status != 200 {
			t.Fatal(g)
		}
	}
	log.mu.Lock()
	defer log.mu.Unlock()
	var scripts []string
	for _, r := range log.all {
		r.Attrs(func(a slog.Attr) bool {
			if a.Key == "script" {
				scripts = append(scripts, a.Value.String())
			}
			return true
		})
	}
	// each with what the script has written, and with its exit code
	want := []string{"/first.php", "/first.php", "/other.php", "/other.php", "/third.php",
		"/third.php"}
	slices.Sort(scripts) // the records of one request come in either order
	if !slices.Equal(scripts, want) {
		t.Errorf("%q, want %q", scripts, want)
	}
}
