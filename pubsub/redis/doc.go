// Package redis carries the topics of a pubsub.Hub between processes, by a Redis or what speaks like it, from version 5
// on: one server, perhaps with replicas, and not a cluster.
//
// Each topic is one capped stream, and that is the only path: a message is appended to it (XADD), and who follows the
// topic reads on from the last entry that he has read (XREAD). So the stream is also what a process catches up with that
// was cut off for a while, and the history for one that comes new.
//
// A message is delivered in its own process at once, whatever becomes of the broker. For the others it waits in a queue
// until the broker has acknowledged it. It may be sent twice, when the acknowledgement is lost; whoever reads knows it
// from its ID, the origin and a number that rises, as he knows his own. So everything arrives once, and in the order in
// which its process has published it. Messages of different processes may be in another order on each of them.
//
// A goroutine sends, in batches, and others read, each all of up to 128 streams with one command that blocks; the broker
// looks at each of them whenever one has something. A reader is woken by a stream of its own, when there is another topic
// to follow. Each has one connection, and none is on a loop; what they bring goes into the hub, which posts it. When much
// comes at once, after an outage, a reader waits a little for subscribers who read, and its other topics with it.
//
// Beyond what a stream keeps (8192 messages, and none for longer than a day after the last, or than that one's Keep), and what a process keeps that
// is cut off (16384 messages, 32 MiB), messages are lost, the oldest first. So they are when a broker acknowledges and then
// forgets, as Redis may with `appendfsync everysec`.
//
// Clocks of processes are not compared: what is history to a subscriber, and what is news, the broker's own time tells,
// which is in the IDs of its entries. It is known as exactly as the broker answers quickly; what was published in these
// milliseconds before a topic is followed is news.
//
//	doc.go     this
//	engine.go  Engine: start, stop, what the hub asks; whether messages are carried
//	writer.go  the queue and the goroutine that empties it
//	readers.go the goroutines that read, and who reads what
//	feed.go    a topic that is followed: positions, doubles, catching up
//	entry.go   what a message is in a stream
package redis
