package pubsub

import (
	"log/slog"
	"time"
)

// Broker is what connects a Hub to other processes by the [pubsub] url of a configuration. Package
// pubsub/redis has one, and pubsub/nats, a module of its own.
type Broker interface {
	// Check returns what is wrong with a URL. The error does not quote the URL, which may have a
	// password.
	Check(url string) error

	// Start connects hub, before the first Subscribe. disconnect is called once; it sends the
	// messages that are queued, within the grace period, and returns how many it has not sent.
	Start(hub *Hub, url string, log *slog.Logger) (
		disconnect func(grace time.Duration) (unsent int), err error)
}

// Engine carries the messages of a Hub to other processes and theirs to the hub. Publishers and
// subscribers call its methods, on their loops and with locks held. The methods must not wait, and
// must not call the hub or a Feed.
type Engine interface {
	// Publish is called once for each message that is published in this process, for each topic in
	// order.
	Publish(topic string, m *Message)

	// Follow asks for the history of a topic and for the messages that other processes publish to it
	// from now on. The engine gives the history to Loaded, soon, and the messages to Deliver, or after
	// an outage to Offer.
	Follow(topic string, to *Feed)

	// Unfollow undoes Follow: the topic has no subscribers any more.
	Unfollow(topic string)
}

// Selector is an Engine that carries patterns and queue groups, too. With another Engine a
// subscription to one is refused.
type Selector interface {
	Engine

	// Select is Follow for a selection, which has no history. The engine does not call Loaded, and
	// gives messages to Deliver or Offer, those of a queue group to Offer. It sets their Topic to the
	// topic of Publish, in whichever process that was called.
	//
	// For a pattern without a group, these are the messages that other processes publish, since the
	// hub has those of this process. For a group, they are the messages of all processes, including
	// this one, and each message is given to one of the processes with the same selection. The engine
	// need not give a message again that a Feed has taken; Progress says how many of these no member
	// of the group has received.
	//
	// Words of a topic's name are separated by dots. In a pattern * stands for one word, and >, which
	// is the last word, for one or more. A name may have other characters, of any kind. A Message is
	// for one Feed.
	//
	// An error refuses the subscription. It may be errors.ErrUnsupported.
	Select(s Selection, to *Feed) error

	// Unselect undoes Select.
	Unselect(s Selection)
}

// Connect makes e carry the topics from now on. It is called once, before the first Subscribe.
func (h *Hub) Connect(e Engine) {
	h.init()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine = e
}

// Origin returns the first part, up to the dash, of the IDs of the messages that are published in
// this process. The second part is a number in base 36, which rises from one message of a topic to
// the next.
func (h *Hub) Origin() string {
	h.init()
	return h.origin
}

// SetCarried is for an Engine. It says whether the engine reaches the other processes at present,
// and they reach this one. Until the first call they count as reached.
func (h *Hub) SetCarried(carried bool) {
	if cut := !carried; h.disconnected.Swap(cut) == cut {
		return
	}
	word := "local"
	if carried {
		word = "carried"
	}
	h.Status().Publish([]byte(word))
	h.presence.setCarried()
}

// Disconnecting is for an Engine that is going to send its last messages: the others learn that
// this process has no members of any Presence any more.
func (h *Hub) Disconnecting() { h.presence.disconnect() }

// Carried reports whether messages reach all subscribers. Without an Engine they always do, because
// all subscribers are in this process.
func (h *Hub) Carried() bool { return !h.disconnected.Load() }

// Status returns a topic of this process, to which "carried" or "local" is published when Carried
// has changed. While it is local, subscribers get the messages of this process only; those of other
// processes follow when topics are carried again.
func (h *Hub) Status() *Topic {
	h.init()
	return h.local.Topic("status")
}
