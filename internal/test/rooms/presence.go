package rooms

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// Observer is what a subscriber to a Presence makes of its messages. It finds changes that do not
// fit: a name that comes twice, or goes without having come.
type Observer struct {
	Here  map[string]bool // nil: there was no list yet
	Said  []string        // what is not a Change
	Stale string          // Change.Stale of the last one
	Wrong []string        // what does not fit
}

// Take takes the next message.
func (o *Observer) Take(m *pubsub.Message) {
	var c pubsub.Change
	if json.Unmarshal(m.Data, &c) != nil {
		o.Said = append(o.Said, string(m.Data))
		return
	}
	if c.List != (o.Here == nil) {
		o.Wrong = append(o.Wrong, fmt.Sprintf("list: %v", c.List))
	}
	if c.List {
		o.Here = make(map[string]bool)
	}
	for _, name := range c.Joined {
		if o.Here[name] {
			o.Wrong = append(o.Wrong, name+" comes twice")
		}
		o.Here[name] = true
	}
	for _, name := range c.Left {
		if !o.Here[name] {
			o.Wrong = append(o.Wrong, name+" goes and was not there")
		}
		delete(o.Here, name)
	}
	if len(o.Here) != c.Count {
		o.Wrong = append(o.Wrong, fmt.Sprintf("%d are here, and the count is %d", len(o.Here), c.Count))
	}
	o.Stale = c.Stale
}

// Names returns the names that it sees, sorted.
func (o *Observer) Names() string {
	var all []string
	for name := range o.Here {
		all = append(all, name)
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func (o *Observer) String() string { return fmt.Sprintf("%s (%s) %q", o.Names(), o.Stale, o.Wrong) }

// present is what a process does that is there to be seen: one member stays, and another one comes
// and goes until "quiet" is said. It prints what it sees, a line each time that it changes.
func present(th *loop.Thread, hub *pubsub.Hub, name string) {
	people := hub.Topic("room").Presence()
	people.Join(name)
	sub := people.Subscribe(th, pubsub.Options{Queue: pubsub.MaxQueue})
	var o Observer
	restless := false
	flip := func() {
		if restless = !restless; restless {
			people.Join(name + "2")
		} else {
			people.Leave(name + "2")
		}
	}
	for last := ""; ; {
		i, err := th.AwaitAny(-1, sub, th.After(10*time.Millisecond))
		if err != nil {
			return
		}
		for m := sub.Next(); m != nil; m = sub.Next() {
			o.Take(m)
		}
		if is := o.String(); is != last {
			last = is
			fmt.Println(is)
		}
		if quiet := len(o.Said) > 0; i == 1 && !quiet || quiet && restless {
			flip()
		}
	}
}

// sees waits until a process has printed this.
func (p *Process) sees(t *testing.T, want string) {
	t.Helper()
	timeout, last := time.After(Limit), ""
	for last != want {
		select {
		case last = <-p.lines:
			if !strings.HasSuffix(last, "[]") {
				t.Fatalf("another process sees %s", last)
			}
		case <-timeout:
			t.Fatalf("another process sees %s, not %s", last, want)
		}
	}
}

// Presence is a test of an engine: three processes see who is there, one of them is killed, and the
// broker starts again. The rest see each other exactly, and nothing that does not fit.
func Presence(t *testing.T, here *Node, url string, restart func()) {
	people := here.Hub.Topic("room").Presence()
	people.Join("a")
	f := here.Follow(people, pubsub.Options{})
	var o Observer
	until := func(what string, enough func() bool) {
		t.Helper()
		for !enough() {
			o.Take(f.NextMessage())
			if len(o.Wrong) > 0 {
				t.Fatalf("%s: this process sees %v", what, &o)
			}
		}
	}
	b, c := StartProcess(t, "presence:b", url), StartProcess(t, "presence:c", url)
	until("three", func() bool { return o.Here["b"] && o.Here["c"] && o.Stale == "" })
	c.Kill()
	killed := time.Now()
	until("two", func() bool { return !o.Here["c"] && !o.Here["c2"] })
	if took := time.Since(killed); took > 18*time.Second {
		t.Errorf("a process that has died is forgotten after %v", took)
	}
	restart()
	until("an outage", func() bool { return o.Stale == pubsub.CutOff && o.Here["b"] })
	people.Join("d") // while it is stale
	until("after the outage", func() bool { return o.Stale == "" && o.Here["b"] && o.Here["d"] })
	people.Publish([]byte("quiet"))
	b.sees(t, "a b d () []")
	until("quiet", func() bool { return len(o.Said) == 1 })
	wait.Until(t, "the same list", func() bool {
		return strings.Join(people.List().Joined, " ") == "a b d"
	})
	until("the end", func() bool { return o.Names() == "a b d" })
}
