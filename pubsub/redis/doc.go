// Package redis carries the topics of a pubsub.Hub between processes, by a Redis or what speaks like it, from version 5 on.
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
// Two goroutines and their connections serve all topics: one sends in batches, the other reads all streams with one
// command that blocks. It is woken by a stream of its own, when there is another topic to follow. None of them is on a
// loop; what they bring goes into the hub, which posts it.
//
//	doc.go     this
//	engine.go  Engine: start, stop, what the hub asks; whether messages are carried
//	writer.go  the queue and the goroutine that empties it
//	reader.go  the goroutine that reads; positions, doubles, catching up
//	entry.go   what a message is in a stream
package redis
