// Package redis carries the topics of a pubsub.Hub between processes, through a Redis or a server
// that speaks its protocol, from version 5 on: one server, perhaps with replicas and Sentinel, or a
// cluster.
//
//	engine, err := redis.Start(hub, "redis://127.0.0.1:6379/0", logger)
//	if err != nil {
//		return err // the URL is wrong; the broker need not be up
//	}
//	defer engine.Close(time.Second)
//	hub.Topic("weather").Publish([]byte("rain")) // to all processes
//
// The URL is of one of these forms, each also with rediss for TLS. User and password are of the
// server's access list.
//
//	redis://user:password@host:6379/0
//	redis+sentinel://user:password@host:26379/0?addr=host2:26379&master_name=main
//	redis+cluster://user:password@host:6379?addr=host2:6379
//	unix://user:password@/run/redis/redis.sock?db=0
//
// These parameters may follow, and the options of go-redis:
//
//	addr               another sentinel, or another node of the cluster; may be there several times
//	master_name        how the sentinels call the primary
//	sentinel_username  and sentinel_password: for the sentinels, if they ask for any
//	replicas           how many replicas must have a message before it counts as sent, 0 by default
//	tls_ca             file of the authorities that the server's certificate may be from; without
//	                   it, those of the system
//	tls_cert           and tls_key: files of the client's certificate and its key
//	tls_name           a name that the server's certificate must have; without it, the host of the
//	                   URL, or with several servers each one's own host
//
// Paths are absolute. The files are read for each connection, so they may be renewed.
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
// loops, as it comes. What was missed in an outage, of this process or of the one that has
// published it, waits for subscribers that read; a message that was late to the broker says so in
// its entry.
//
// A message also says which one it is of those that its process has published to the topic. If one
// is missing between two that were read, because the stream was trimmed meanwhile, the broker has
// lost it, or the other process had no room for it, it counts as dropped, and the log tells of it.
// That is found when the same process publishes to the topic again. A message with a Keep does not
// count.
//
// In a cluster, topics are spread over 64 shards by a hash of their names. A shard is the streams
// of one slot, because a cluster refuses commands for several slots. It has a goroutine that sends
// and one or more that read, from its first topic on. While a node is away, or a slot moves, the
// topics of other shards go on. An answer such as MOVED, ASK or TRYAGAIN ends a connection, and the
// next one is made to the node that has the slot then; a slot that moves key by key is read again
// when all of it has moved.
//
// A pattern is read from one more stream, that of all topics of the shard. A process that follows a
// pattern creates it, and sets it to expire after a day. While it exists, each message is appended
// to it as well, by the same transaction, and the process reads the matching messages from it. With
// each batch a process asks the broker whether the stream exists, until it does. So patterns cost
// nothing where no process has one, and otherwise the broker stores each message twice. A pattern
// begins when the broker has the stream: while the broker is away, other processes do not append.
// If a broker without the stream is in the place of one that had it, the first process creates it,
// one that follows or one who publishes. In a cluster a pattern takes a connection for each shard.
//
// A queue group is a group of the broker's on the topic's stream (XREADGROUP), or that of all
// topics. A process has up to 16 messages at a time. It acknowledges what a member has received
// (XACK), gives back what members are too busy for, or have left, and claims again what it has.
// Others claim what a process has not claimed again for 30 s (XAUTOCLAIM); they try each second. A
// group whose processes have all been silent for five minutes begins anew with the next one, and
// after an hour it is destroyed when a process joins another group of the stream. Both need a
// broker of version 6.2.
//
// The backlog of a pattern's group is the stream of all topics: 8192 messages of everything, not
// only of what matches. What a group has not read by then is lost, which the log says.
//
// A stream keeps 8192 messages, and none for longer than a day after the last one, or than that
// one's Keep. A process that is cut off keeps 16384 messages of 32 MiB together. Beyond these
// bounds messages are lost, the oldest first. They are also lost if a broker acknowledges them and
// then forgets them, as Redis may with `appendfsync everysec`, or in a fail-over. With replicas=1 a
// process sends a message again if its server fails before a replica has it, so a replica that is
// promoted has all that counts as sent. The price is a round trip to the replica for each batch;
// and while a server has too few replicas, its messages wait, and topics are not carried.
//
// A process asks the sentinels, or the cluster, for the server each time it connects, and it
// connects anew as soon as the former primary has gone, refuses to write, or does not answer for 2
// s. Without either, the address must lead to the new primary: a name, a proxy or an address that
// moves.
//
// Clocks of processes are not compared. The broker's own time, which is in the IDs of its entries,
// decides what is history to a subscriber and what is news. That is as exact as the broker is quick
// to answer: what was published within these milliseconds before a topic is followed is news.
//
//	doc.go        the package comment
//	url.go        settings in the URL
//	storage.go    values that processes share: pubsub.Storage
//	tls.go        connections with TLS
//	find.go       which server to connect to: one, by Sentinel, of a cluster
//	engine.go     Engine: start, stop, what the hub asks
//	shard.go      the topics of one slot, or all; which reader reads what
//	writer.go     how a batch is sent
//	readers.go    the goroutines that read
//	selection.go  patterns and queue groups: what the hub asks
//	patterns.go   the stream of all topics, for patterns
//	join.go       how a process joins a queue group
//	group.go      a queue group
//	feed.go       a topic that is followed: positions, doubles, catching up
//	entry.go      the format of a message in a stream
package redis
