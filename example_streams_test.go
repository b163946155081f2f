package lwango_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// untilStop reads from a stream. When the server stops, and nothing that has come is unread, the
// input ends, even within a line. It also ends if the client has been silent for a minute.
type untilStop struct {
	t *loop.Thread
	s *stream.Stream
}

func (r untilStop) Read(p []byte) (int, error) {
	i, err := r.t.AwaitAny(time.Minute, r.s.Readable(), r.t.Loop().Stopped())
	if err != nil {
		return 0, err
	}
	if i != 0 {
		return 0, io.EOF
	}
	return r.s.Read(p)
}

// session answers line after line, and returns when the client has left, or the server stops.
func session(t *loop.Thread, s *stream.Stream) error {
	lines := bufio.NewScanner(untilStop{t, s})
	for lines.Scan() {
		if _, err := fmt.Fprintln(s, strings.ToUpper(lines.Text())); err != nil {
			return err
		}
	}
	if lines.Err() != nil {
		return lines.Err()
	}
	return io.EOF // the connection is closed
}

// A protocol of lines, on all CPUs. A stop does not wait for the clients.
func ExampleServeStreams() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	if err := lwango.ServeStreams(ctx, "127.0.0.1:7000", 0, session); err != nil {
		log.Fatal(err)
	}
}
