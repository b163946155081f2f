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
// The text of a key is bytes of the layer's choice. It is kept and compared whole, so no other key's
// answer is ever found, whatever the hash. An Object does not change and is safe to use while it is evicted or
// purged: its bytes belong to the garbage collector, its descriptor to its users. Whoever sends a long body says
// so (Use), and it counts until it is sent.
//
// Any goroutine may call what takes no thread and says nothing else. What takes a *loop.Thread is
// called by that thread; it may wait, and its loop goes on meanwhile.
//
//	store.go      Store: options, lookup, limits, counters
//	object.go     Object and Head
//	slab.go       memory at which the garbage collector does not look
//	hoard.go      what is evicted from memory
//	leftover.go   what was evicted, and is held by those who send it
//	policy.go     what is evicted from the disk
//	bounds.go     how much there may be
//	index.go      from keys to objects, without a lock
//	prefetch*     lines of the processor's cache, early
//	entry.go      keys of which answers come, or are on disk
//	forms.go      coded forms of bodies
//	share.go      no client leaves others without room for long bodies
//	use.go        long bodies that are sent take memory, also when they were evicted
//	fill.go       Fill: an answer that comes
//	window.go     how much of it is in memory once it is not going to be kept, or the disk is slow
//	end.go        how a fill ends
//	reader.go     Reader: what has come of it, for those who wait
//	purge.go      Purge
//	line.go       what is purged by the first lines of keys
//	marks.go      what was purged, and has not taken effect everywhere
//	marksfile.go  the same on disk
//	sweep.go      the memory of what was purged comes back
//	disk.go       the folder: its lock, its state, its workers
//	old.go        files of another version are removed
//	format.go     heads and names of files
//	head.go       heads and bodies are read and checked
//	file.go       open files
//	load.go       what is in the folder, found and read
//	unlink.go     files are removed
//	output.go     fills that go to disk
//	siphash.go    the hash of keys
package cachestore
