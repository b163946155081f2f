// Package nats carries the topics of a pubsub.Hub between processes, through NATS with JetStream:
// nats-server from version 2.12 on, one or a cluster. It is a module of its own, so only programs
// that import it have a client of NATS in them.
//
//	lwango.UseBroker(nats.Broker) // and [pubsub] url = "nats://127.0.0.1:4222"
//
// or, without a server of lwango:
//
//	engine, err := nats.Start(hub, "nats://127.0.0.1:4222", logger)
//	if err != nil {
//		return err // the URL is wrong; the broker need not be up
//	}
//	defer engine.Close(time.Second)
//	hub.Topic("weather").Publish([]byte("rain")) // to all processes
//
// The URL is of one of these forms, the second one with TLS.
//
//	nats://user:password@host:4222?addr=host2:4222
//	tls://token@host:4222
//
// These parameters may follow:
//
//	addr      another server of the cluster; may be there several times. The client learns of those
//	          that are not named.
//	stream    the name of the stream, lwango by default
//	replicas  on how many servers the stream is, 1 by default: for the process that creates it
//	creds     file with a user's JWT and its key
//	tls_ca    file of the authorities that the server's certificate may be from; without it, those
//	          of the system
//	tls_cert  and tls_key: files of the client's certificate and its key
//	tls_name  a name that the server's certificate must have; without it, the host
//
// Paths are absolute. The files of TLS are read for each connection, so they may be renewed.
//
// All topics are subjects of one stream, NAME.topic.TOPIC, with characters that NATS does not allow
// as = and two hexadecimal digits. The first process creates the stream; it may also be there
// already, with the settings that Config shows. What is published is stored, and the server
// publishes it again as NAME.live.TOPIC, with its number in the stream and that of the message of
// the same topic before it. A process subscribes to that for each topic that it follows, which
// costs the server little. By the numbers it knows what it has missed, and it reads that from the
// stream: after an outage, when it was too slow, or when another server has taken over. It reads
// the history from there, too.
//
// A message is delivered in its own process at once, whether or not the broker can be reached. For
// the others it waits in a queue until the broker has acknowledged it. A batch is published
// atomically: all of it or nothing. It may be sent twice, when an acknowledgement is lost. A reader
// knows it by its ID, which is the origin and a number that rises. So every message arrives once,
// and in the order in which its process has published it. Messages of different processes have the
// order of the stream, but for a process's own, which come first there.
//
// A pattern, and a queue group, is read from the stream by a consumer: one of the process's own,
// and one that all processes with members share. So a group's message is given to one process,
// which gives it to one of its members, and acknowledges it when that has received it.
//
// A message also says which one it is of those that its process has published to the topic. If one
// is missing between two that were read, because the stream kept no more (MaxMsgs, MaxBytes,
// MaxAge), the server has lost it, or the other process had no room for it, it counts as dropped,
// and the log tells of it. That is found when the same process publishes to the topic again. A
// message with a Keep does not count.
//
// A message that another client of NATS has published to NAME.topic.TOPIC is delivered as well. Its
// ID is made of its number in the stream.
//
// The stream keeps 8192 messages of a topic, and each for a day, or for its Keep in whole seconds.
// A process that is cut off keeps 16384 messages of 32 MiB together. Beyond these bounds messages
// are lost, the oldest first. A message that is larger than the server's max_payload reaches no
// other process.
//
// A user of an access list needs to publish to NAME.topic.>, $JS.API.STREAM.INFO.NAME,
// $JS.API.STREAM.CREATE.NAME, $JS.API.STREAM.MSG.GET.NAME and $JS.API.DIRECT.GET.NAME, and to
// subscribe to NAME.live.> and _INBOX.>; for patterns and groups also to publish to
// $JS.API.CONSUMER.*.NAME.>, $JS.API.CONSUMER.MSG.NEXT.NAME.> and $JS.ACK.NAME.>.
//
//	doc.go        the package comment
//	url.go        settings in the URL
//	engine.go     Engine: start, stop, what the hub asks
//	writer.go     how a batch is published
//	reader.go     the goroutine that reads: topics to be followed, messages
//	session.go    the state of the stream when the reader begins anew
//	feed.go       a topic that is followed: gaps, doubles, catching up
//	history.go    messages of a topic from before it was followed
//	selection.go  patterns and queue groups: sessions
//	share.go      how a queue group's messages are given to members, or back
//	stream.go     the stream: creation, check
//	entry.go      the format of a message in the stream; subjects
package nats
