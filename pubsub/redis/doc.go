// Package redis carries the topics of a pubsub.Hub between processes, through a Redis or a server
// that speaks its protocol, from version 5 on: one server, perhaps with replicas, and not a
// cluster.
//
//	engine, err := redis.Start(hub, "redis://127.0.0.1:6379/0", logger)
//	if err != nil {
//		return err // the URL is wrong; the broker need not be up
//	}
//	defer engine.Close(time.Second)
//	hub.Topic("weather").Publish([]byte("rain")) // to all processes
//
// Each topic is one capped stream, and that is the only path. A process appends a message to the
// stream (XADD), and a process that follows the topic reads on from the last entry that it has read
// (XREAD). So a process that was cut off catches up from the stream, and one that is new reads the
// history from it.
//
// A message is delivered in its own process at once, whether or not the broker can be reached. For
// the others it waits in a queue until the broker has acknowledged it. It may be sent twice, when
// an acknowledgement is lost. A reader knows it by its ID, which is the origin and a number that
// rises; by the origin it also knows the messages of its own process. So every message arrives
// once, and in the order in which its process has published it. Messages of different processes may
// have another order in each process.
//
// One goroutine sends, in batches. Others read: each of them reads up to 128 streams with one
// command that blocks, and the broker looks at all of them whenever one has a new entry. To make a
// reader follow another topic, the engine wakes it through a stream of its own. Each goroutine has
// one connection, and none is on a loop. What they bring goes into the hub, which posts it to the
// loops. When much arrives at once, after an outage, a reader waits a little for subscribers that
// read, and its other topics wait with it.
//
// A stream keeps 8192 messages, and none for longer than a day after the last one, or than that
// one's Keep. A process that is cut off keeps 16384 messages of 32 MiB together. Beyond these
// bounds messages are lost, the oldest first. They are also lost if a broker acknowledges them and
// then forgets them, as Redis may with `appendfsync everysec`, or in a fail-over.
//
// After a fail-over a process finds the new primary by the address that it has: a name, a proxy or
// an address that moves must lead there. It connects anew as soon as the former primary refuses to
// write.
//
// Clocks of processes are not compared. The broker's own time, which is in the IDs of its entries,
// decides what is history to a subscriber and what is news. That is as exact as the broker is quick
// to answer: what was published within these milliseconds before a topic is followed is news.
//
//	doc.go     this
//	engine.go  Engine: start, stop, what the hub asks; whether messages are carried
//	writer.go  the queue and the goroutine that empties it
//	readers.go the goroutines that read, and which of them reads what
//	feed.go    a topic that is followed: positions, doubles, catching up
//	entry.go   what a message is in a stream
package redis
