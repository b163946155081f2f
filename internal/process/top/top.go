// Package top is the command `lwango top`, which shows the module `status` of a running server in a
// terminal.
package top

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/metrics"
)

const usage = `usage: lwango top [-1] [ADDRESS]

Shows what a running server says of itself, once a second, until q or Ctrl-C: of the last minute, and
charts of the last five. If the output is no terminal, or with -1, it prints that once.

  ADDRESS  of a route with module = "status": http://host:port/prefix, https://..., or
           unix:/path/of/socket:/prefix; without it, http://127.0.0.1:8080/status
`

const (
	interval     = time.Second     // between two requests
	fetchTimeout = 5 * time.Second // of a request
	largest      = 64 << 20        // bytes of an answer
)

// Main runs the command with its arguments, and returns the exit code: 0, 1 if the server does not
// answer, 2 for wrong arguments.
func Main(args []string, in, out *os.File, stderr io.Writer) int {
	once, address := false, ""
	for _, a := range args {
		switch {
		case a == "-1":
			once = true
		case a == "-h" || a == "-help" || a == "--help":
			fmt.Fprint(out, usage)
			return 0
		case strings.HasPrefix(a, "-") || address != "":
			fmt.Fprintf(stderr, "lwango top: unexpected argument %q\n%s", a, usage)
			return 2
		default:
			address = a
		}
	}
	s, err := newSource(cmp.Or(address, "http://127.0.0.1:8080/status"))
	if err != nil {
		fmt.Fprintf(stderr, "lwango top: %v\n", err)
		return 2
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM,
		syscall.SIGHUP)
	defer stop()
	_, err = unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if once || err != nil {
		now, err := s.fetch(ctx)
		if err != nil {
			fmt.Fprintf(stderr, "lwango top: %v\n", err)
			return 1
		}
		for _, l := range render(now, 0, 0) {
			fmt.Fprintln(out, l.text)
		}
		return 0
	}
	return s.watch(ctx, in, out)
}

// source is the server from which the JSON comes.
type source struct {
	client http.Client
	url    string
}

// newSource reads an address.
func newSource(address string) (*source, error) {
	s := &source{url: strings.TrimSuffix(address, "/") + "/json"}
	s.client.Timeout = fetchTimeout
	switch {
	case strings.HasPrefix(address, "http://"), strings.HasPrefix(address, "https://"):
	case strings.HasPrefix(address, "unix:"):
		path, prefix, _ := strings.Cut(strings.TrimPrefix(address, "unix:"), ":")
		if path == "" || prefix != "" && prefix[0] != '/' {
			return nil, fmt.Errorf("expected unix:/path/of/socket:/prefix, found %q", address)
		}
		s.url = "http://localhost" + strings.TrimSuffix(cmp.Or(prefix, "/status"), "/") + "/json"
		s.client.Transport = &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, "unix", path)
			}}
	default:
		return nil, fmt.Errorf("expected http://..., https://... or unix:/path:/prefix, found %q",
			address)
	}
	return s, nil
}

func (s *source) fetch(ctx context.Context) (*metrics.Snapshot, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, s.url, nil)
	if err != nil {
		return nil, err
	}
	resp, err := s.client.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s: %s", s.url, resp.Status)
	}
	text, err := io.ReadAll(io.LimitReader(resp.Body, largest))
	if err != nil {
		return nil, err
	}
	out := new(metrics.Snapshot)
	if err := json.Unmarshal(text, out); err != nil {
		return nil, fmt.Errorf("%s: not what the module status answers: %w", s.url, err)
	}
	return out, nil
}

// Escape sequences: enter another screen without a cursor, and leave it; move the cursor home;
// clear the rest of the line, and of the screen.
const (
	enterScreen, leaveScreen               = "\x1b[?1049h\x1b[?25l", "\x1b[?25h\x1b[?1049l"
	cursorHome, clearToLineEnd, clearBelow = "\x1b[H", "\x1b[K", "\x1b[J"
	endStyle                               = "\x1b[0m"
)

// watch draws until ctx ends or q is pressed.
func (s *source) watch(ctx context.Context, in, out *os.File) int {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if was, err := unix.IoctlGetTermios(int(in.Fd()), unix.TCGETS); err == nil {
		keys := *was // keys arrive at once and without echo; Ctrl-C stays a signal
		keys.Lflag &^= unix.ICANON | unix.ECHO
		keys.Cc[unix.VMIN], keys.Cc[unix.VTIME] = 1, 0
		_ = unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, &keys)
		defer func() { _ = unix.IoctlSetTermios(int(in.Fd()), unix.TCSETS, was) }()
		go func() { // ends with the process
			var b [1]byte
			for {
				if n, err := in.Read(b[:]); err != nil || n == 0 || b[0] == 'q' || b[0] == 'Q' {
					cancel()
					return
				}
			}
		}()
	}
	fmt.Fprint(out, enterScreen)
	defer fmt.Fprint(out, leaveScreen)
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		now, err := s.fetch(ctx)
		rows, columns := room(out)
		var lines []line
		if err == nil {
			lines = render(now, columns, rows)
		} else if !errors.Is(err, context.Canceled) {
			failed := &screen{columns: columns}
			failed.add(alarm, "no answer: %v", err)
			lines = failed.lines
		}
		if ctx.Err() == nil {
			draw(out, lines[:min(len(lines), rows)])
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return 0
		}
	}
}

// room is the size of a terminal.
func room(out *os.File) (rows, columns int) {
	size, err := unix.IoctlGetWinsize(int(out.Fd()), unix.TIOCGWINSZ)
	if err != nil || size.Row == 0 || size.Col == 0 {
		return 24, 80
	}
	return int(size.Row), int(size.Col)
}

// draw shows lines, for which there is room, in one write. With NO_COLOR in the environment they
// have no style.
func draw(out *os.File, lines []line) {
	b := []byte(cursorHome)
	for i, l := range lines {
		if i > 0 {
			b = append(b, "\r\n"...)
		}
		if l.style != plain && os.Getenv("NO_COLOR") == "" {
			b = append(b, string(l.style)+l.text+endStyle...)
		} else {
			b = append(b, l.text...)
		}
		b = append(b, clearToLineEnd...)
	}
	_, _ = out.Write(append(b, clearBelow...))
}

// clean replaces control characters: names come from another process.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || 0x7f <= r && r < 0xa0 {
			return '?'
		}
		return r
	}, s)
}
