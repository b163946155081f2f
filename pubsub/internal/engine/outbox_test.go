package engine_test

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

func TestMain(m *testing.M) { leak.Main(m) }

func newBase() (*pubsub.Hub, *engine.Base) {
	hub := new(pubsub.Hub)
	return hub, engine.New(hub, slog.New(slog.NewTextHandler(io.Discard, nil)), "test")
}

// One server takes nothing, and its outbox fills: it loses its own oldest messages, and the
// outboxes of other servers lose none. What was sent, or failed, is in order.
func TestFullestLoses(t *testing.T) {
	hub, b := newBase()
	var stuck, sent []string
	one := b.Outbox(128, func([]engine.Item) (int, error) { return 0, errors.New("away") }, func() {})
	two := b.Outbox(1, func(batch []engine.Item) (int, error) {
		sent = append(sent, batch[0].ID)
		if len(sent) == 1 {
			return 0, errors.New("once") // it comes again
		}
		return 0, nil
	}, func() {})
	for i := range engine.MaxQueued + 1000 {
		one.Add("one", &pubsub.Message{ID: fmt.Sprint("a-", i)})
	}
	for i := range 100 {
		two.Add("two", &pubsub.Message{ID: fmt.Sprint("b-", i)})
	}
	wait.Until(t, "the other is empty", func() bool { return len(two.Waiting("two")) == 0 })
	for _, m := range one.Waiting("one") {
		stuck = append(stuck, m.ID)
	}
	if lost := b.Lost(); lost < 1000-128 || lost > 1100 || len(stuck)+lost != engine.MaxQueued+1000 ||
		stuck[len(stuck)-1] != fmt.Sprint("a-", engine.MaxQueued+999) {
		t.Errorf("lost %d, %d wait, up to %s", lost, len(stuck), stuck[len(stuck)-1])
	}
	wait.Until(t, "it is not carried", func() bool { return !hub.Carried() })
	if unsent := b.Close(10 * time.Millisecond); unsent != len(stuck) {
		t.Errorf("%d not sent", unsent)
	}
	if len(sent) != 101 || sent[0] != sent[1] {
		t.Errorf("sent %q", sent)
	}
	for i, id := range sent[1:] {
		if id != fmt.Sprint("b-", i) {
			t.Fatalf("sent %q", sent)
		}
	}
}

// Bytes are bounded, too, but for one message.
func TestBytesAreBounded(t *testing.T) {
	_, b := newBase()
	o := b.Outbox(1, func([]engine.Item) (int, error) { return 0, errors.New("away") }, func() {})
	for range 40 {
		o.Add("x", &pubsub.Message{Data: make([]byte, 1<<20)})
	}
	if n := b.Pending(); n < 32 || n > 33 || n+b.Lost() != 40 {
		t.Errorf("%d wait, lost %d", n, b.Lost())
	}
	o.Add("x", &pubsub.Message{Data: make([]byte, 64<<20)})
	if n := b.Pending(); n < 1 || n > 2 {
		t.Errorf("%d wait", n)
	}
	b.Close(0)
}

func TestIDs(t *testing.T) {
	for id, want := range map[string]string{
		"x-1": "x 1 true", "x-z": "x 35 true", "-1": " 1 false", "x": "x 0 false", "x-": "x 0 false",
		"x-3w5e11264sgsf":              "x 18446744073709551615 true",
		"1234567890abcd-3w5e11264sgsf": "1234567890abcd 18446744073709551615 false",
	} {
		origin, number, ok := engine.ParseID(id)
		if got := fmt.Sprint(origin, " ", number, " ", ok); got != want {
			t.Errorf("%s: %s", id, got)
		}
	}
}
