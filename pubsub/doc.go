// Package pubsub carries messages from publishers to the green threads that are subscribed, on all
// loops.
//
//	topic := hub.Topic("news")
//	sub := topic.Subscribe(t, pubsub.Options{}) // t: a thread
//	topic.Publish([]byte("hello"))              // any goroutine
//	m, err := sub.Receive(time.Minute)
//
// A Hub is a set of topics. A Topic is a name. Publish gives it a message, from any goroutine, and
// never waits. A Subscription belongs to a thread's loop and is a loop.Source: the thread awaits it
// beside its socket and its timers. All subscribers get the same Message, and what Shared makes of
// it, such as a frame, is made once.
//
// A topic is a log of its last messages, and a subscriber is a position in that log. So publishing
// costs as much for ten thousand subscribers as for one: an append, and at most one Post to each of
// their loops, which wakes the threads that wait. A slow or silent subscriber costs neither
// publishers nor other subscribers anything. Messages that an Engine brings from other processes
// are appended in the same way. Only messages that come all at once after an outage wait: half a
// second for a subscriber that does not read, and ten seconds for one that is slow. If the log has
// forgotten messages that a subscriber has not read, its Policy says what happens. An idle
// subscription is a record of 64 bytes, and another 64 if its Options ask for more than the zero
// Options do, or if its thread's end closes it.
//
// The memory of topics is bounded, for each and for the hub. A publisher never waits and is never
// refused: if there is no room, the topics that hold most forget messages, and a subscriber that
// had not read them has fallen behind.
//
// A Pattern stands for all topics whose names match it, such as "room.*", and Options.Group makes
// subscribers members of a queue group, one of which gets each message. Both have a log of their
// own.
//
// A Presence is who is there, of all processes. Each process tells the others what changes among
// its own members, and numbers that. A process that has missed a number, or is new, asks for all
// members, which come with the number of the last change. So no list is kept at the broker, and an
// engine carries no more for it than one topic.
//
//	doc.go           the package comment
//	hub.go           Hub: the topics, and which of them are remembered without subscribers
//	topic.go         Topic and Pattern: publish, subscribe
//	counts.go        how many topics and subscribers there are
//	log.go           the last messages of a topic, or of a selection
//	selection.go     patterns and queue groups: which logs get the messages of a topic
//	matches.go       whether a pattern or queue group selects a topic, for an Engine
//	group.go         the subscriptions of a log on one loop, and their notification
//	subscription.go  Subscription: a position in a log; policies
//	sendnext.go      a message that is sent on the loop
//	remaining.go     messages that subscribers read at a stop
//	presence.go      Presence: the list of members, and its changes in few messages
//	peers.go         the members in other processes: leases, outages
//	note.go          what processes tell each other of their members
//	message.go       Message, and the encoded forms that subscribers share
//	feed.go          Feed: messages from an engine
//	catchup.go       how long a Feed waits for subscribers after an outage
//	engine.go        Engine: what carries topics between processes
//	storage.go       Storage: values that processes share
package pubsub
