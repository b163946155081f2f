// Package cachestore keeps answers for the layer cache: in memory, and on disk. It knows nothing of
// HTTP's rules: the layer says what is kept, for whom, and when it is stale.
//
//	key := store.Key(text)
//	objects := store.Find(t, key, list)      // the variants of a resource, the newest first
//	object.Hit(); object.Body()              // or object.Open(t), if it is on disk
//	reader, fill := store.Begin(key, match)  // nothing fits: one caller fills, the others read
//	fill.Start(head, length); fill.Write(t, p); fill.Commit() // or at once: fill.Whole(head, body)
//	reader.Head(t, d); reader.Read(p)
//
// The text of a key is bytes of the layer's choice. It is kept and compared whole, so no other
// key's answer is ever found, whatever the hash. An Object does not change and is safe to use while
// it is evicted or purged: its bytes belong to the garbage collector, its descriptor to its users.
// Whoever sends a long body says so (Use), and it counts until it is sent.
//
// Any goroutine may call what takes no thread and says nothing else. What takes a *loop.Thread is
// called by that thread; it may wait, and its loop goes on meanwhile.
//
//	store.go      Store: lookup, keeping, counters
//	storage.go    where bodies are, memory or a disk: options, choice, limits
//	object.go     Object and Head
//	slab.go       memory at which the garbage collector does not look
//	memory.go     the order of eviction from memory
//	leftover.go   evicted objects that are still sent
//	policy.go     the order of eviction from the disk
//	bounds.go     the limits of memory and disk
//	index.go      from keys to objects, without a lock
//	prefetch*     prefetching lines of the processor's cache
//	entry.go      keys whose answers are on their way or on disk
//	forms.go      coded forms of bodies
//	share.go      how much memory one client's long bodies may take
//	use.go        memory of long bodies that are sent, evicted ones included
//	fill.go       Fill: an answer that arrives
//	window.go     how much of a Fill is in memory if it will not be kept, or the disk is slow
//	end.go        the end of a Fill
//	reader.go     Reader: an arriving answer, for those who wait for it
//	purge.go      Purge
//	line.go       purges by the first lines of keys
//	marks.go      purges that have not taken effect everywhere
//	marksfile.go  such purges on disk
//	sweep.go      freeing the memory of purged objects
//	disk.go       a disk's folder: its lock, its state, its workers
//	old.go        removing files of another version
//	format.go     the format and the names of files
//	head.go       reading and checking heads and bodies
//	file.go       open files
//	load.go       finding and reading the files of the folder at the start
//	unlink.go     removing files
//	output.go     writing Fills to disk
//	siphash.go    the hash of keys
package cachestore
