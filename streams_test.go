package lwango_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango"
)

// A session that waits for a line, or for the rest of one, does not hold up a stop, and answers what
// has come before.
func TestSessionEndsAtStop(t *testing.T) {
	t.Parallel()
	ctx, stop := context.WithCancel(t.Context())
	running, err := lwango.Server{
		Listeners: []lwango.Listener{{Addr: "127.0.0.1:0", Streams: session}},
		Grace:     time.Hour,
		Logger:    slog.New(slog.DiscardHandler),
	}.Start(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var conns []net.Conn
	for _, rest := range []string{"", "half a li"} {
		c, err := net.Dial("tcp", running.Addrs()[0])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(time.Minute))
		fmt.Fprint(c, "one\n")
		if line, err := bufio.NewReader(c).ReadString('\n'); line != "ONE\n" || err != nil {
			t.Fatalf("%q, %v", line, err)
		}
		fmt.Fprint(c, rest)
		conns = append(conns, c)
	}
	stop()
	if err := running.Wait(); err != nil {
		t.Error(err)
	}
	for i, want := range []string{"", "HALF A LI\n"} {
		if got, err := io.ReadAll(conns[i]); string(got) != want || err != nil {
			t.Errorf("%q, %v; want %q", got, err, want)
		}
	}
}
