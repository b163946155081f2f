package rooms

import (
	"testing"

	"github.com/lwango/lwango/pubsub"
)

// OneRoom tests that nodes, which start makes, are in one room: they hear each other, and what was
// said before they came.
func OneRoom(t *testing.T, start func() *Node) {
	t.Helper()
	one, two := start(), start()
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	at1.Hears(room1, Numbered("a", 0, 100)...)
	at2.Expect(Numbered("a", 0, 100)...)
	Publish(room2, "b")
	at2.Expect("b")
	at1.Expect("b")

	// A process that comes later gets the history, and what it says itself.
	three := start()
	room3 := three.Hub.Topic("room")
	at3 := three.Follow(room3, pubsub.Options{History: 3})
	Publish(room3, "here I am")
	said := append(Numbered("a", 0, 100), "b")
	at3.ExpectEnd(said, 2, "here I am")
	at1.Expect("here I am")
	at2.Expect("here I am")

	// The last of a process leaves and comes back.
	close(at3.Done)
	Publish(room1, "meanwhile")
	at1.Expect("meanwhile")
	at2.Expect("meanwhile")
	at3 = three.Follow(room3, pubsub.Options{History: 2})
	at3.ExpectEnd(append(said, "meanwhile"), 1, "here I am")
	Publish(room1, "end")
	for _, f := range []*Follower{at1, at2, at3} {
		f.Expect("end")
		f.Quiet()
	}
	if !one.Hub.Carried() {
		t.Error("not carried")
	}
}

// CutOff tests that a node whose broker is behind w goes on while it is cut off, again and again,
// as does another one, and that both then have everything, in order.
func CutOff(t *testing.T, w *Wire, one, two *Node) {
	t.Helper()
	room1, room2 := one.Hub.Topic("room"), two.Hub.Topic("room")
	at1, at2 := one.Follow(room1, pubsub.Options{}), two.Follow(room2, pubsub.Options{})
	Publish(room1, "up")
	at1.Expect("up")
	at2.Expect("up")
	for round := range 3 {
		w.Cut(true)
		one.Status.Expect("local")
		from, to := 300*round, 300*(round+1)
		at1.Hears(room1, Numbered("a", from, to)...)
		at2.Hears(room2, Numbered("b", from, to)...)
		w.Cut(false)
		one.Status.Expect("carried")
		at1.Expect(Numbered("b", from, to)...)
		at2.Expect(Numbered("a", from, to)...)
	}
	two.Status.Quiet()
	at1.Quiet()
	at2.Quiet()
}
