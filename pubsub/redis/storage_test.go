package redis_test

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

// clients returns the numbers of the connections.
func clients(list any) string {
	return fmt.Sprint(regexp.MustCompile(`\bid=\d+`).FindAllString(fmt.Sprint(list), -1))
}

// TestStorage: values stay, once there; a lock is for one, and ends with its time or its owner; and
// what the broker loses is not there.
func TestStorage(t *testing.T) {
	b := broker.Start(t)
	s := must.Get(redis.Broker.(pubsub.Storer).Storage(b.URL()))(t)
	defer s.Close()
	ctx := context.Background()
	get := func(key, want string) {
		t.Helper()
		got, err := s.Get(ctx, key)
		if err != nil || string(got) != want || (got == nil) != (want == "") {
			t.Errorf("%s: %q, %v, want %q", key, got, err, want)
		}
	}
	yes := func(want bool) func(bool, error) {
		return func(got bool, err error) {
			t.Helper()
			if err != nil || got != want {
				t.Errorf("%v, %v, want %v", got, err, want)
			}
		}
	}
	get("a", "")
	must.Do(t, s.Set(ctx, "a", []byte("1"), 0))
	get("a", "1")
	yes(true)(s.Add(ctx, "lock", []byte("me"), time.Hour))
	yes(false)(s.Add(ctx, "lock", []byte("you"), time.Hour))
	yes(false)(s.Extend(ctx, "lock", []byte("you"), time.Hour))
	yes(true)(s.Extend(ctx, "lock", []byte("me"), time.Hour))
	must.Do(t, s.Remove(ctx, "lock", []byte("you")))
	get("lock", "me")
	must.Do(t, s.Remove(ctx, "lock", []byte("me")))
	get("lock", "")
	yes(true)(s.Add(ctx, "lock", []byte("you"), time.Millisecond))
	wait.Until(t, "the end of the lock", func() bool {
		value, err := s.Get(ctx, "lock")
		return err == nil && value == nil
	})
	// A caller that gives up does not take the connections of others away.
	held := b.KeepConn()
	before := held("client list")
	left, leave := context.WithCancel(ctx)
	leave()
	if _, err := s.Get(left, "a"); err == nil {
		t.Error("no error of a caller that has given up")
	}
	if after := held("client list"); clients(before) != clients(after) {
		t.Errorf("connections before:\n%v\nafter:\n%v", before, after)
	}
	get("a", "1")
	b.Kill()
	if _, err := s.Get(ctx, "a"); err == nil {
		t.Error("no error of a broker that is away")
	}
	b.Restart()
	wait.Until(t, "the broker to have loaded its data", func() bool {
		_, err := s.Get(ctx, "a")
		return err == nil
	})
	get("a", "1")
	s.Close()
	if _, err := s.Get(ctx, "a"); err == nil {
		t.Error("no error after Close")
	}
}
