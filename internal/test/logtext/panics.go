package logtext

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
)

// Panics are those that the servers of a test log. A server answers 500 after one, or closes the
// connection, which a test may take for what it wants: so a panic that the test does not expect
// fails it.
type Panics struct {
	mu       sync.Mutex
	got      []string
	expected bool
}

// Watch returns a logger that logs to l, and looks for panics until the test ends. A nil l is the
// default logger; one that is watched already stays as it is.
func Watch(t testing.TB, l *slog.Logger) (*slog.Logger, *Panics) {
	t.Helper()
	if l == nil {
		l = slog.Default()
	}
	if w, ok := l.Handler().(watcher); ok {
		return l, w.panics
	}
	p := new(Panics)
	t.Cleanup(func() { p.judge(t) })
	return p.Watch(l), p
}

// Watch returns a logger that logs to l; p gets its panics.
func (p *Panics) Watch(l *slog.Logger) *slog.Logger { return slog.New(watcher{l.Handler(), p}) }

// Logger returns a watched logger that writes to w, as text.
func Logger(t testing.TB, w io.Writer) *slog.Logger {
	t.Helper()
	l, _ := Watch(t, slog.New(slog.NewTextHandler(w, nil)))
	return l
}

// Expect says that the test makes its servers panic. It fails if none does.
func (p *Panics) Expect() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.expected = true
}

func (p *Panics) add(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.got = append(p.got, text)
}

func (p *Panics) judge(t testing.TB) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.expected && len(p.got) == 0 && !t.Failed() && !t.Skipped():
		t.Error("no panic was logged, and the test expects one")
	case !p.expected && len(p.got) > 0:
		t.Errorf("%d panics, the first one:\n%s", len(p.got), p.got[0])
	}
}

// watcher notes the panics that it passes on.
type watcher struct {
	slog.Handler
	panics *Panics
}

// Enabled implements slog.Handler: a panic is noted by a logger that drops everything, too.
func (w watcher) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || w.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (w watcher) Handle(ctx context.Context, r slog.Record) error {
	if isPanic(r.Message) {
		w.panics.add(describe(r))
	}
	if !w.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return w.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (w watcher) WithAttrs(attrs []slog.Attr) slog.Handler {
	return watcher{w.Handler.WithAttrs(attrs), w.panics}
}

// WithGroup implements slog.Handler.
func (w watcher) WithGroup(name string) slog.Handler {
	return watcher{w.Handler.WithGroup(name), w.panics}
}

// Quiet drops what is logged. It is for servers whose test has no hold of their logger: a panic
// ends the process.
var Quiet = slog.New(quiet{slog.DiscardHandler})

type quiet struct{ slog.Handler }

func (quiet) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelError }

func (q quiet) Handle(_ context.Context, r slog.Record) error {
	if isPanic(r.Message) {
		fmt.Fprintln(os.Stderr, "a panic that no test expects:", describe(r))
		os.Exit(1)
	}
	return nil
}

func (q quiet) WithAttrs([]slog.Attr) slog.Handler { return q }
func (q quiet) WithGroup(string) slog.Handler      { return q }

// NoPanic fails the test if the log of a program tells of a panic.
func NoPanic(t testing.TB, log string) {
	t.Helper()
	if line := FindPanic(log); line != "" {
		t.Errorf("a panic in the log: %s", line)
	}
}

// FindPanic returns the first line of a program's log that tells of a panic, or "".
func FindPanic(log string) string {
	for line := range strings.Lines(log) {
		if isPanic(line) {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return ""
}

// isPanic: "conn: panic in a handler", "loop: panic in a green thread" and their like.
func isPanic(text string) bool { return strings.Contains(text, ": panic in a ") }

func describe(r slog.Record) string {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		text += fmt.Sprintf("\n%s: %v", a.Key, a.Value)
		return true
	})
	return text
}
