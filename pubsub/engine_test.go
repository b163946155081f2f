package pubsub_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// script is an engine that notes what it is asked, and brings what the test gives.
type script struct {
	mu    sync.Mutex
	asked []string
	feeds map[string]*pubsub.Feed // the last, by topic
}

func (s *script) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, fmt.Sprintf(format, args...))
}

func (s *script) Publish(topic string, m *pubsub.Message) { s.note("publish %s %s", topic, m.Data) }
func (s *script) Follow(topic string, to *pubsub.Feed) {
	s.note("follow %s", topic)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.feeds == nil {
		s.feeds = make(map[string]*pubsub.Feed)
	}
	s.feeds[topic] = to
}

// feed is where what others have published to a topic goes.
func (s *script) feed(topic string) *pubsub.Feed {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.feeds[topic]
}

func (s *script) Unfollow(topic string) { s.note("unfollow %s", topic) }

// theirs is a message that another process has published, so long ago.
func theirs(id string, ago time.Duration) *pubsub.Message {
	return &pubsub.Message{ID: "theirs-" + id, Time: time.Now().Add(-ago), Data: []byte(id)}
}

func TestEngineIsAsked(t *testing.T) {
	var hub pubsub.Hub
	var e script
	hub.Connect(&e)
	loops.Run(t, func(th *loop.Thread) {
		room := hub.Topic("room")
		publish(room, "a")
		one := room.Subscribe(th, pubsub.Options{})
		two := room.Subscribe(th, pubsub.Options{})
		publish(room, "b")
		e.feed("room").Deliver([]*pubsub.Message{theirs("1", 0)}) // is not published again
		one.Unsubscribe()
		two.Unsubscribe()
		e.feed("room").Deliver([]*pubsub.Message{theirs("2", 0)}) // too late
		e.feed("room").Loaded(nil)
		status := hub.Status().Subscribe(th, pubsub.Options{}) // stays here
		for _, carried := range []bool{true, false, false, true, true} {
			hub.SetCarried(carried)
			if hub.Carried() != carried {
				t.Errorf("carried: %v", !carried)
			}
		}
		if got := rest(status); got != "localcarried" {
			t.Errorf("status: %q", got)
		}
		user := hub.Topic("status").Subscribe(th, pubsub.Options{}) // has nothing to do with it
		hub.SetCarried(false)
		hub.SetCarried(true)
		if got, theirs := rest(status), rest(user); got != "localcarried" || theirs != "" {
			t.Errorf("status: %q, and a topic of that name: %q", got, theirs)
		}
		user.Unsubscribe()
		if got := rest(room.Subscribe(th, pubsub.Options{})); got != "" {
			t.Errorf("%q", got)
		}
	})
	want := "[publish room a follow room publish room b unfollow room " +
		"follow status unfollow status follow room unfollow room]"
	if got := fmt.Sprint(e.asked); got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// Whoever asks for history waits for it; the others do not.
func TestHistoryThatTheEngineHas(t *testing.T) {
	const long = time.Hour
	for _, policy := range []pubsub.Policy{pubsub.DropOldest, pubsub.DropNewest,
		pubsub.Disconnect} {
		for _, row := range []struct {
			name string
			// published here before the subscription
			before string
			// nil: it cannot be learnt
			loaded func(before, since []*pubsub.Message) []*pubsub.Message
			o      pubsub.Options
			want   string
		}{
			{"none", "", func(_, _ []*pubsub.Message) []*pubsub.Message { return nil },
				pubsub.Options{History: 9}, "xy"},
			{"not to be had, but what is known", "ab",
				func(_, _ []*pubsub.Message) []*pubsub.Message { return nil },
				pubsub.Options{History: 9}, "abxy"},
			{"theirs", "", func(_, _ []*pubsub.Message) []*pubsub.Message {
				return []*pubsub.Message{theirs("1", long), theirs("2", long)}
			}, pubsub.Options{History: 9}, "12xy"},
			{"a part", "", func(_, _ []*pubsub.Message) []*pubsub.Message {
				return []*pubsub.Message{theirs("1", long), theirs("2", long), theirs("3", long)}
			}, pubsub.Options{History: 2}, "23xy"},
			{"after", "", func(_, _ []*pubsub.Message) []*pubsub.Message {
				return []*pubsub.Message{theirs("1", long), theirs("2", long), theirs("3", long)}
			}, pubsub.Options{After: "theirs-2"}, "3xy"},
			{"mixed with ours", "ab", func(before, since []*pubsub.Message) []*pubsub.Message {
				return []*pubsub.Message{theirs("1", -long), before[0], theirs("2", long), since[0],
					before[1]}
			}, pubsub.Options{History: 9}, "1a2bxy"}, // whatever the clocks show
			{"longer than is held", "", func(_, _ []*pubsub.Message) (ms []*pubsub.Message) {
				for i := range 100 {
					ms = append(ms, theirs(fmt.Sprint(i%10), long))
					ms[i].ID = fmt.Sprint("theirs-", i)
				}
				return ms
			}, pubsub.Options{History: 5}, "56789xy"},
		} {
			t.Run(fmt.Sprint(row.name, policy), func(t *testing.T) {
				var hub pubsub.Hub
				e := new(script)
				hub.Connect(e)
				room := hub.Topic("room")
				var before, since []*pubsub.Message
				for _, letter := range row.before {
					before = append(before, room.Publish([]byte(string(letter))))
				}
				loops.Run(t, func(th *loop.Thread) {
					row.o.Policy = policy
					sub, live := room.Subscribe(th, row.o), room.Subscribe(th, pubsub.Options{})
					since = append(since, room.Publish([]byte("x")), room.Publish([]byte("y")))
					if sub.Ready() || sub.Next() != nil {
						t.Error("history is not awaited")
					}
					if got := rest(live); got != "xy" {
						t.Errorf("live: %q", got)
					}
					go e.feed("room").Loaded(row.loaded(before, since))
					if i, err := th.AwaitAny(limit, sub); i != 0 || err != nil {
						t.Error(err)
					}
					got := rest(sub)
					later := room.Subscribe(th, row.o)
					if again := rest(later); got != row.want ||
						again != row.want && row.o.History != 2 && row.o.History != 5 {
						t.Errorf("%q, later %q, want %q", got, again, row.want)
					}
					publish(room, "z")
					if a, b := rest(sub), rest(later); a != "z" || b != "z" {
						t.Errorf("%q, %q", a, b)
					}
					if sub.Dropped()+live.Dropped() != 0 {
						t.Error("dropped")
					}
				})
			})
		}
	}
}

// The engine has given up first, and comes back with what was published meanwhile.
func TestHistoryThatComesLate(t *testing.T) {
	var hub pubsub.Hub
	e := new(script)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		room := hub.Topic("room")
		sub := room.Subscribe(th, pubsub.Options{History: 5})
		e.feed("room").Loaded(nil)
		ours := room.Publish([]byte("a"))
		if got := rest(sub); got != "a" {
			t.Errorf("%q", got)
		}
		e.feed("room").Loaded([]*pubsub.Message{theirs("1", time.Hour), ours})
		e.feed("room").Deliver([]*pubsub.Message{theirs("2", time.Hour)})
		if got := rest(sub); got != "2" {
			t.Errorf("%q", got)
		}
	})
}

// An answer to a Follow that is over is not given to the subscribers of the next one.
func TestHistoryForOneWhoHasLeft(t *testing.T) {
	var hub pubsub.Hub
	e := new(script)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		room := hub.Topic("room")
		room.Subscribe(th, pubsub.Options{History: 5}).Unsubscribe()
		before := e.feed("room")
		sub := room.Subscribe(th, pubsub.Options{History: 5})
		before.Loaded([]*pubsub.Message{theirs("1", time.Hour)})
		before.Deliver([]*pubsub.Message{theirs("2", 0)})
		if sub.Ready() {
			t.Error("history is not awaited")
		}
		e.feed("room").Loaded([]*pubsub.Message{theirs("1", time.Hour), theirs("2", 0)})
		e.feed("room").Deliver([]*pubsub.Message{theirs("3", time.Hour)})
		for i, want := range []string{"1", "2", "3"} {
			if m := sub.Next(); m == nil || string(m.Data) != want || sub.History() != (i < 2) {
				t.Errorf("%v, want %s; history: %v", m, want, sub.History())
			}
		}
	})
}

// Who leaves while history is awaited leaves nothing behind, nor does history that comes then.
func TestHistoryForNobody(t *testing.T) {
	var hub pubsub.Hub
	e := new(script)
	hub.Connect(e)
	loops.Run(t, func(th *loop.Thread) {
		room := hub.Topic("room")
		room.Subscribe(th, pubsub.Options{History: 5}).Unsubscribe()
		e.feed("room").Loaded([]*pubsub.Message{theirs("1", time.Hour)})
		if n, _ := pubsub.Topics(&hub); n != 0 {
			t.Errorf("%d topics", n)
		}
		sub := room.Subscribe(th, pubsub.Options{History: 5})
		if sub.Ready() {
			t.Error("history is not awaited")
		}
		sub.Unsubscribe()
		if !sub.Ready() || sub.Next() != nil {
			t.Error("it goes on after its end")
		}
	})
}
