package server_test

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
)

// A program's own flags stand beside lwango's, in any order, and do not take its names away.
func TestParse(t *testing.T) {
	tests := []struct {
		args       string
		code       int // -1: the program goes on
		own        string
		out, error string // a part of it
	}{
		{"", -1, "none", "", ""},
		{"-own here", -1, "here", "", ""},
		{"-l localhost:0 -own here -r /", -1, "here", "", ""},
		{"-own here -x", 2, "here", "", "not defined: -x\nusage: "},
		{"-own", 2, "none", "", "needs an argument: -own\nusage: "},
		{"-n here", 2, "none", "", `invalid value "here" for flag -n`},
		{"argument", 2, "none", "", `unexpected argument "argument"`},
		{"-h", 0, "none", "\n  -own place\n", ""},
		{"-h", 0, "none", "usage: lwango [-c FILE]", ""},
		{"-v", 0, "none", "lwango ", ""},
	}
	for _, test := range tests {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		own := flags.String("own", "none", "a `place`")
		flags.Int("n", 0, "")
		theirs := flags.Bool("v", false, "")
		var stdout, stderr strings.Builder
		o, code := server.Parse(strings.Fields(test.args), flags, &stdout, &stderr)
		if o != nil {
			code = -1
		}
		if code != test.code || *own != test.own || *theirs {
			t.Errorf("%s: code %d, -own %s, want %d, %s; -v %v", test.args, code, *own, test.code, test.own,
				*theirs)
		}
		for _, text := range []struct {
			got, want string
		}{{stdout.String(), test.out}, {stderr.String(), test.error}} {
			if !strings.Contains(text.got, text.want) || text.want == "" && text.got != "" {
				t.Errorf("%s: printed %q, want %q", test.args, text.got, text.want)
			}
		}
	}
}

// Without flags of its own a program's usage is lwango's, and no more.
func TestUsageOfNoFlags(t *testing.T) {
	var stdout strings.Builder
	if _, code := server.Parse([]string{"-h"}, flag.NewFlagSet("", flag.ContinueOnError), &stdout,
		io.Discard); code != 0 {
		t.Errorf("code %d", code)
	}
	if strings.Contains(stdout.String(), "of this program") {
		t.Errorf("got %s", stdout.String())
	}
}

// The end of ctx stops the program as a signal does. A signal that comes with it is not a second
// one, which would leave the requests in flight without an answer.
func TestMainUntilContextEnds(t *testing.T) {
	o, _ := server.Parse([]string{"-l", "127.0.0.1:0"}, flag.NewFlagSet("", flag.ContinueOnError),
		io.Discard, io.Discard)
	if o == nil {
		t.Fatal("the command line is refused")
	}
	// A signal is given to all that wait for it at the same moment: what has come here has come to
	// the program as well, and will not meet the one of the next row.
	received := make(chan os.Signal, 8)
	signal.Notify(received, syscall.SIGTERM, syscall.SIGINT)
	defer signal.Stop(received)
	tests := []struct {
		signals []syscall.Signal // of different kinds, lest the kernel make one of them
		code    int
	}{
		{nil, 0},
		{[]syscall.Signal{syscall.SIGTERM}, 0},
		{[]syscall.Signal{syscall.SIGTERM, syscall.SIGINT}, 1},
	}
	for _, test := range tests {
		p := server.NewProgram(config.Builtin())
		asked, release := make(chan struct{}), make(chan struct{})
		p.Handle("/", func(req *conn.Request, resp *conn.Response) int {
			close(asked)
			if err := req.Await(time.Minute, func(context.Context) error {
				<-release
				return nil
			}); err != nil {
				return 500
			}
			return 204
		})
		ctx, end := context.WithCancelCause(t.Context())
		r, log := io.Pipe()
		lines := make(chan string, 100) // more than there are
		go scan(r, lines)
		done := make(chan int, 1)
		go func() {
			done <- p.Main(ctx, o, filepath.Join(t.TempDir(), "none.conf"), io.Discard, log)
			log.Close()
		}()
		address := logged(t, lines, `msg=listening address=(\S+)`)
		answered := make(chan error, 1)
		go func() { answered <- noContent("http://" + address) }()
		select {
		case <-asked:
		case err := <-answered:
			t.Fatalf("%v: answered before the handler was called: %v", test.signals, err)
		}
		end(errors.New("enough of it"))
		logged(t, lines, `msg=stopping cause="enough of it" .*(connections=1)`)
		for _, sig := range test.signals {
			must.Do(t, syscall.Kill(syscall.Getpid(), sig))
			<-received
		}
		if test.code != 0 {
			logged(t, lines, `(msg="stopped at once")`)
		}
		close(release)
		if err := <-answered; err != nil && test.code == 0 {
			t.Errorf("%v: the request in flight: %v", test.signals, err)
		}
		if code := <-done; code != test.code {
			t.Errorf("%v: exit code %d, want %d", test.signals, code, test.code)
		}
	}
}

// scan sends the lines of a log.
func scan(r io.Reader, lines chan<- string) {
	defer close(lines)
	for s := bufio.NewScanner(r); s.Scan(); {
		lines <- s.Text()
	}
}

// logged waits for a line that matches, and returns its first group.
func logged(t *testing.T, lines <-chan string, expr string) string {
	t.Helper()
	re := regexp.MustCompile(expr)
	for line := range lines {
		if m := re.FindStringSubmatch(line); m != nil {
			return m[1]
		}
	}
	t.Fatalf("ended without %s in the log", expr)
	return ""
}

func noContent(url string) error {
	c := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := c.Get(url)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode != http.StatusNoContent {
		return errors.New(resp.Status)
	}
	return nil
}
