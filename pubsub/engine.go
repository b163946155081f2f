package pubsub

// Engine carries the messages of a Hub to other processes and theirs to the hub. Its methods are called by those who
// publish and subscribe, on their loops and with locks held: they must not wait, and must not call the hub or a Feed.
type Engine interface {
	// Publish is called once for each message that is published here, for each topic in order.
	Publish(topic string, m *Message)

	// Follow asks for what a topic has had, to be given to Loaded before long, and for what others publish to it from now
	// on, to be given to Deliver.
	Follow(topic string, to *Feed)

	// Unfollow ends that: nobody is subscribed to the topic any more.
	Unfollow(topic string)
}

// Connect has e carry the topics, from now on. It is called before anybody subscribes, and once.
func (h *Hub) Connect(e Engine) {
	h.init()
	h.mu.Lock()
	defer h.mu.Unlock()
	h.engine = e
}

// Origin is what the IDs of the messages begin with that are published here, up to the dash. Behind it there is a
// number in base 36, which in each topic rises from one message to the next.
func (h *Hub) Origin() string {
	h.init()
	return h.origin
}

// SetCarried is for an Engine: whether it reaches the other processes at present, and they this one. At first it does.
func (h *Hub) SetCarried(carried bool) {
	if cut := !carried; h.cut.Swap(cut) == cut {
		return
	}
	word := "local"
	if carried {
		word = "carried"
	}
	h.Status().Publish([]byte(word))
}

// Carried reports whether what is published reaches all subscribers there are. Without an Engine it always does: they are
// in this process.
func (h *Hub) Carried() bool { return !h.cut.Load() }

// Status returns a topic of this process, to which "carried" or "local" is published when Carried has changed. While it is
// local, subscribers in this process get what is published in it, and the rest is made up for when it is carried again.
func (h *Hub) Status() *Topic {
	h.init()
	return h.local.Topic("status")
}
