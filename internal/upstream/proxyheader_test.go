package upstream_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/upstream"
)

// TestHeadedConnections: those that began with a header, which only their client can use, take no
// place of others, are few, and end soon.
func TestHeadedConnections(t *testing.T) {
	s := numbers(t)
	pool, all := keeping(t, s, 1, func(s *upstream.Settings) {
		s.MaxIdle, s.IdleTimeout = 100, time.Minute
	})
	r := all[0]
	r.prepare = func(l *upstream.Lease, line string) {
		if line != "plain" {
			l.Preface = []byte(line + " ")
		}
	}
	last := time.Now()
	r.get("plain")
	for i := range 200 {
		r.get(fmt.Sprint("client", i))
		now := time.Now()
		pool.Age(last.Sub(now)) // no time has passed
		last = now
	}
	if n := pool.Idle(); n != 1+64 {
		t.Error(n, " are idle")
	}
	if g := r.get("client199"); g.text != "201" {
		t.Error("the last client: ", g)
	}
	if g := r.get("plain"); g.text != "1" {
		t.Error("another one: ", g)
	}
	pool.Age(10 * time.Second)
	if n := pool.Idle(); n != 1 {
		t.Error(n, " are idle 10 seconds later")
	}
	r.prepare = nil
	s.closed(t)
}
