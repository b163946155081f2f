package logtext_test

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/logtext"
)

// recorder is a test that notes what it is told, and ends when end is called.
type recorder struct {
	testing.TB
	cleanups []func()
	errors   []string
}

func (*recorder) Helper()             {}
func (r *recorder) Cleanup(f func())  { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool      { return len(r.errors) > 0 }
func (r *recorder) Skipped() bool     { return false }
func (r *recorder) Error(args ...any) { r.errors = append(r.errors, fmt.Sprint(args...)) }
func (r *recorder) Errorf(f string, args ...any) {
	r.errors = append(r.errors, fmt.Sprintf(f, args...))
}

func (r *recorder) end() string {
	for _, f := range r.cleanups {
		f()
	}
	return strings.Join(r.errors, ", ")
}

// TestPanics: a panic in the log fails a test that does not expect it, and so does none in one that
// does.
func TestPanics(t *testing.T) {
	const first = "2 panics, the first one:\nconn: panic in a handler\npanic: oh\nstack: here"
	for _, test := range []struct {
		what          string
		panics, wants bool
		want          string
	}{
		{"neither", false, false, ""},
		{"unexpected", true, false, first},
		{"expected", true, true, ""},
		{"missing", false, true, "no panic was logged, and the test expects one"},
	} {
		for _, h := range []slog.Handler{slog.DiscardHandler, slog.NewTextHandler(io.Discard, nil)} {
			r := &recorder{TB: t}
			l, panics := logtext.Watch(r, slog.New(h))
			if again, same := logtext.Watch(r, l); again != l || same != panics {
				t.Error("a watched logger is watched once more")
			}
			if test.wants {
				panics.Expect()
			}
			l.Error("conn: a handler failed", "panic", "in a handler")
			if test.panics {
				l.Error("conn: panic in a handler", "panic", "oh", "stack", "here")
				l.With("a", 1).WithGroup("g").Error("loop: panic in a green thread")
			}
			if got := r.end(); got != test.want {
				t.Errorf("%s: %q, want %q", test.what, got, test.want)
			}
		}
	}
}

// TestNoPanic: the same for the text of a log.
func TestNoPanic(t *testing.T) {
	const line = `time=x level=ERROR msg="loop: panic in a green thread" panic=oh`
	for log, want := range map[string]string{
		"msg=listening\n":              "",
		"msg=a\n" + line + "\nmsg=b\n": "a panic in the log: " + line,
	} {
		r := &recorder{TB: t}
		logtext.NoPanic(r, log)
		if got := r.end(); got != want {
			t.Errorf("%q: %q, want %q", log, got, want)
		}
	}
}
