package redis_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/pubsub/redis"
)

// A group whose processes have all been gone for long begins anew.
func TestQueueGroupOfTheDead(t *testing.T) {
	set(t, redis.Memberless, 20*time.Millisecond)
	b := broker.Start(t)
	one := startNode(t, b.URL())
	b.Do("XADD lwango:topic:jobs 1-1 id x-1 time 1 data taken")
	b.Do("XGROUP CREATE lwango:topic:jobs 4:jobs:workers 0")
	b.Do("XREADGROUP GROUP 4:jobs:workers dead COUNT 1 STREAMS lwango:topic:jobs >")
	b.Do("XADD lwango:topic:jobs 2-1 id x-2 time 1 data waits")
	time.Sleep(2 * *redis.Memberless)
	at := one.Follow(one.Hub.Topic("jobs"), workers)
	publish(one.Hub.Topic("jobs"), "news")
	all(t, at, []string{"news"})
	members := fmt.Sprint(b.Do("XINFO CONSUMERS lwango:topic:jobs 4:jobs:workers"))
	if strings.Contains(members, "dead") {
		t.Errorf("of the group: %s", members)
	}
	at.Quiet()
}

// So it does for a process that was the only one, and comes again.
func TestQueueGroupLeftForLong(t *testing.T) {
	set(t, redis.Memberless, 200*time.Millisecond)
	b := broker.Start(t)
	one, two := startNode(t, b.URL()), startNode(t, b.URL())
	at := one.Follow(one.Hub.Topic("jobs"), workers)
	publish(two.Hub.Topic("jobs"), "a")
	all(t, at, []string{"a"})
	close(at.Done)
	wait.Until(t, "it has left", func() bool { return one.engine.Groups() == 0 })
	publish(two.Hub.Topic("jobs"), "old")
	two.Acknowledged()
	time.Sleep(2 * *redis.Memberless)
	again := one.Follow(one.Hub.Topic("jobs"), workers)
	publish(two.Hub.Topic("jobs"), "news")
	all(t, again, []string{"news"})
	again.Quiet()
}

// A group that nobody has been in for long is destroyed when a process joins another one of the
// topic.
func TestQueueGroupIsForgotten(t *testing.T) {
	set(t, redis.Forgotten, 20*time.Millisecond)
	b := broker.Start(t)
	b.Do("XADD lwango:topic:jobs 1-1 id x-1 time 1 data taken")
	for _, group := range []string{"4:jobs:old", "theirs"} {
		b.Do("XGROUP CREATE lwango:topic:jobs " + group + " 0")
		b.Do("XREADGROUP GROUP " + group + " dead COUNT 1 STREAMS lwango:topic:jobs >")
	}
	time.Sleep(2 * *redis.Forgotten)
	one := startNode(t, b.URL())
	at := one.Follow(one.Hub.Topic("jobs"), workers)
	publish(one.Hub.Topic("jobs"), "news")
	all(t, at, []string{"news"})
	got := fmt.Sprint(b.Do("XINFO GROUPS lwango:topic:jobs"))
	for name, is := range map[string]bool{"4:jobs:old": false, "theirs": true,
		"4:jobs:workers": true} {
		if strings.Contains(got, name) != is {
			t.Errorf("there are %s", got)
		}
	}
}
