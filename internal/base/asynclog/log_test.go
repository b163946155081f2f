package asynclog_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/netip"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lwango/lwango/internal/base/asynclog"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/must"
)

func TestMain(m *testing.M) { leak.Main(m) }

// sink is a reader of the log. It takes nothing while it is shut.
type sink struct {
	shut sync.Mutex
	mu   sync.Mutex
	text bytes.Buffer
	err  error
}

func (s *sink) Write(p []byte) (int, error) {
	s.shut.Lock()
	defer s.shut.Unlock()
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return 0, s.err
	}
	return s.text.Write(p)
}

func (s *sink) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

func (s *sink) fail(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err = err
}

// TestLines: lines are those of slog.TextHandler, in order, with what was set before.
func TestLines(t *testing.T) {
	var got, want bytes.Buffer
	say := func(log *slog.Logger) {
		log.Info("one", "n", 1, "error", errors.New("a b"), "at",
			netip.MustParseAddrPort("192.0.2.1:80"), "d", time.Second)
		log.With("route", "/x").WithGroup("g").Warn("two", "s", "x\ny", "nil", nil, "list",
			[]int{1})
		log.Debug("not this")
		log.Log(t.Context(), slog.LevelError+1, "three")
	}
	stamp := func(b *bytes.Buffer) string {
		var out []string
		for line := range strings.Lines(b.String()) {
			_, rest, _ := strings.Cut(line, " ")
			out = append(out, rest)
		}
		return strings.Join(out, "")
	}
	say(slog.New(slog.NewTextHandler(&want, nil)))
	l := asynclog.New(&got)
	say(l.Logger())
	l.Close(time.Minute)
	if stamp(&got) != stamp(&want) || want.Len() == 0 {
		t.Errorf("got\n%swant\n%s", got.String(), want.String())
	}
}

// TestJSON: from one line to the next, all loggers change to JSON and back, with the texts that the
// other format has, and what was set before.
func TestJSON(t *testing.T) {
	var s sink
	l := asynclog.New(&s)
	defer l.Close(time.Minute)
	log := l.Logger()
	with := log.With("route", "/x").WithGroup("g")
	log.Info("text", "d", time.Second)
	l.SetJSON(true)
	log.Info("one", "n", 1, "error", errors.New("a \"b\""), "at",
		netip.MustParseAddrPort("192.0.2.1:80"), "d", time.Second, "long", strings.Repeat("x", 300),
		"bytes", []byte("b\xff"), "nil", (*bad)(nil))
	with.Warn("two", "on", true)
	asynclog.Priority(log).Error("three")
	for range 60 {
		log.Info("many")
	}
	l.SetJSON(false)
	with.Info("back")
	l.Flush(time.Minute)
	lines := strings.Split(s.String(), "\n")
	for i, want := range []string{
		`time=\S+ level=INFO msg=text d=1s`,
		`{"time":"[^"]+","level":"INFO","msg":"one","n":1,"error":"a \\"b\\"","at":"192.0.2.1:80",` +
			`"d":"1s","long":"x{253}\.\.\.","bytes":"b\\ufffd","nil":"!PANIC: no text"}`,
		`{"time":"[^"]+","level":"WARN","msg":"two","route":"/x","g":{"on":true}}`,
		`{"time":"[^"]+","level":"ERROR","msg":"three"}`,
		`{"time":"[^"]+","level":"INFO","msg":"many"}`,
	} {
		if !regexp.MustCompile("^" + want + "$").MatchString(lines[i]) {
			t.Errorf("line %d: %s\nwant %s", i, lines[i], want)
		}
	}
	if !strings.Contains(s.String(), "level=INFO msg=back route=/x\n") {
		t.Errorf("got %s", s.String()[max(0, s.text.Len()-300):])
	}
}

// TestJSONReaderStalls: what the log says of itself is JSON as well.
func TestJSONReaderStalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		var s sink
		l := asynclog.New(&s)
		defer l.Close(time.Minute)
		l.SetJSON(true)
		s.fail(io.ErrClosedPipe)
		l.Logger().Info("lost")
		l.Flush(time.Minute)
		s.fail(nil)
		for range 60 {
			l.Logger().Info("many")
		}
		l.Flush(time.Minute)
		for line := range strings.Lines(s.String()) {
			if !json.Valid([]byte(line)) {
				t.Errorf("no JSON: %s", line)
			}
		}
		for _, want := range []string{`"lines":1}`, `"kind":"many","lines":`} {
			if !strings.Contains(s.String(), want) {
				t.Errorf("no %s in\n%s", want, s.String())
			}
		}
	})
}

type bad struct{}

func (*bad) Error() string { panic("no text") }

// TestTextIsCut: whatever a client sends, a line stays short; a stack does not.
func TestTextIsCut(t *testing.T) {
	long := strings.Repeat("x", 15<<10)
	var got bytes.Buffer
	l := asynclog.New(&got)
	log := l.Logger()
	log.Info("m", "target", long)
	log.Info("m", "error", errors.New(long))
	log.Info("m", "value", []byte(long))
	log.Info("m", "any", struct{ S string }{long})
	log.Info(long)
	log.With("route", long).Info("m")
	log.Info("m", "text", strings.Repeat("€", 1000))
	log.Info("m", "nil", (*bad)(nil))
	log.Info("m", "stack", long)
	log.Info("m", "stack", long+long)
	asynclog.Priority(log).Error("m", "error", long)
	l.Close(time.Minute)
	lines := strings.Split(strings.TrimSuffix(got.String(), "\n"), "\n")
	if len(lines) != 11 {
		t.Fatalf("%d lines", len(lines))
	}
	for i, line := range lines[:8] {
		if len(line) > 256+100 {
			t.Errorf("line %d has %d bytes: %.100s", i, len(line), line)
		}
		if i < 7 && !strings.HasSuffix(strings.TrimRight(line, `"`), "...") && i != 4 && i != 5 {
			t.Errorf("line %d does not show that it was cut: %s", i, line)
		}
	}
	if strings.ContainsRune(lines[6], '\uFFFD') || strings.Contains(lines[6], `\x`) {
		t.Errorf("cut within a character: %s", lines[6])
	}
	if !strings.Contains(lines[7], "PANIC") {
		t.Errorf("got %s", lines[7])
	}
	if n := strings.Count(lines[8], "x"); n != len(long) {
		t.Errorf("%d bytes of the stack", n)
	}
	if n := strings.Count(lines[10], "x"); n != len(long) {
		t.Errorf("%d bytes of a priority line's error", n)
	}
	if n := len(lines[9]); n > 16<<10+100 {
		t.Errorf("a line of %d bytes", n)
	}
}

// TestReaderStalls: no caller waits, what finds no room is counted and logged, and for priority
// lines there is room.
func TestReaderStalls(t *testing.T) {
	var s sink
	l := asynclog.New(&s)
	defer l.Close(time.Minute)
	log := l.Logger()
	s.shut.Lock()
	const total = 5000 // of 250 bytes each, and each of a kind of its own
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range total {
			log.Error(strings.Repeat("m", 200)+string(rune('a'+i%26))+strings.Repeat("k", i/26%26),
				"i", i)
		}
		asynclog.Priority(log).Info("stopping")
	}()
	<-done // nothing has been read
	s.shut.Unlock()
	l.Flush(time.Minute)
	text := s.String()
	written := strings.Count(text, "level=ERROR")
	if written < 500 || written > 2000 {
		t.Errorf("%d lines written", written)
	}
	if !strings.Contains(text, "msg=stopping") {
		t.Error("a priority line is lost")
	}
	if !strings.Contains(text, `msg="log: lines dropped`) {
		t.Errorf("nothing is said of what is missing: ...%s", text[max(0, len(text)-500):])
	}
	log.Info("again")
	l.Flush(time.Minute)
	if !strings.Contains(s.String(), "msg=again") {
		t.Error("the log does not go on")
	}
}

// TestReaderLeaves: lines that cannot be written are counted, and told when there is a reader
// again.
func TestReaderLeaves(t *testing.T) {
	var s sink
	l := asynclog.New(&s)
	defer l.Close(time.Minute)
	s.fail(io.ErrClosedPipe)
	for range 3 {
		l.Logger().Info("lost")
	}
	l.Flush(time.Minute)
	s.fail(nil)
	l.Logger().Info("back")
	l.Flush(time.Minute)
	if text := s.String(); !strings.Contains(text, "msg=back") ||
		!strings.Contains(text, "lines=3\n") || strings.Contains(text, "msg=lost") {
		t.Errorf("got\n%s", text)
	}
}

// TestAfterTheEnd: what a program says between the end of its loops and its own is not lost.
func TestAfterTheEnd(t *testing.T) {
	var got bytes.Buffer
	l := asynclog.New(&got)
	l.Logger().Info("before")
	l.Close(time.Minute)
	l.Logger().Info("after")
	if text := got.String(); !strings.Contains(text, "msg=before") ||
		!strings.HasSuffix(text, "msg=after\n") {
		t.Errorf("got\n%s", text)
	}
	l.Flush(time.Minute)
	l.Close(time.Minute)
}

// TestEndWithStalledReader: the end of the program does not wait longer than it says.
func TestEndWithStalledReader(t *testing.T) {
	r, w := must.Pipe(t)
	l := asynclog.New(w)
	log := asynclog.Priority(l.Logger())
	for range 1000 {
		log.Info("line", "text", strings.Repeat("x", 250))
	}
	began := time.Now()
	l.Flush(10 * time.Millisecond)
	l.Close(10 * time.Millisecond)
	if took := time.Since(began); took > 10*time.Second {
		t.Errorf("took %v", took)
	}
	r.Close() // and the goroutine ends
	l.Close(time.Minute)
	w.Close()
	log.Info("too late") // is not a panic
	l.Flush(time.Minute)
}

// TestRate: of a message 50 lines are logged, and then 10 a second; the number of the others is
// told, once each five seconds and at the end. Other messages and priority lines are not concerned.
func TestRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var s sink
		l := asynclog.New(&s)
		log := l.Logger()
		for range 1000 {
			log.Warn("noise", "n", 1)
			asynclog.Priority(log).Info("listening")
		}
		log.With("a", 1).Warn("noise") // of the same kind
		log.Warn("other")
		synctest.Wait()
		check := func(when, what string, want int) {
			t.Helper()
			if n := strings.Count(s.String(), what); n != want {
				t.Errorf("%s: %d times %s, want %d", when, n, what, want)
			}
		}
		check("at first", "msg=noise", 50)
		check("at first", "msg=listening", 1000)
		check("at first", "msg=other", 1)
		check("at first", "left out", 0)
		time.Sleep(time.Second)
		for range 100 {
			log.Warn("noise")
		}
		synctest.Wait()
		check("a second later", "msg=noise", 60)
		time.Sleep(5 * time.Second)
		synctest.Wait()
		check("five seconds later", "kind=noise lines=1041\n", 1)
		for range 60 {
			log.Warn("noise")
		}
		l.Close(time.Minute)
		check("in the end", "msg=noise", 110)
		check("in the end", "kind=noise lines=10\n", 1)
	})
}

// TestManyKinds: a program that puts numbers into its messages costs no memory without bound.
func TestManyKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		var s sink
		l := asynclog.New(&s)
		log := l.Logger()
		b := make([]byte, 8)
		for i := range 20000 {
			for j := range b {
				b[j] = 'a' + byte(i>>(2*j)&3)
			}
			log.Info(string(b))
		}
		l.Close(time.Minute)
		if n := asynclog.Kinds(l); n > 1001 {
			t.Errorf("%d kinds are kept", n)
		}
		if !strings.Contains(s.String(), "kind=others lines=") {
			t.Error("what was left out is not told")
		}
	})
}

// TestLongKinds: messages that are the same as far as a line shows them are of one kind, and no
// more than that is remembered of any.
func TestLongKinds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // no time passes
		var s sink
		l := asynclog.New(&s)
		log := l.Logger()
		begin := strings.Repeat("x", 1<<10)
		for i := range 60 {
			log.Info(begin + strings.Repeat("y", i))
		}
		l.Close(time.Minute)
		if n := strings.Count(s.String(), "level=INFO"); n != 50 {
			t.Errorf("%d lines of 60", n)
		}
		if n := len(s.String()); n > 60*400 {
			t.Errorf("%d bytes", n)
		}
	})
}
