package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// memoryEvery is how often it is looked whether memory is to be given back. It is a variable only
// for the tests.
var memoryEvery = 15 * time.Second

// idleHeap is how much more than before, or how much that is free, is not worth a collection.
const idleHeap = 8 << 20

// memory gives back to the system what a burst has left. Go's collector runs when the heap has
// doubled, or else every two minutes, and an idle server does not double its heap; pools keep what
// they have over one collection. So where none has come since the last look, and there is something
// to be had, memory has the collector run. A busy server has collections of its own.
//
// With a large heap a collection takes long, and a server that is hardly used has something to give
// back all the time. So memory rests for a hundred times as long as the last one has taken.
type memory struct {
	cycles uint64
	held   uint64 // by objects, when memory was last given back
	open   int    // connections then
	until  time.Time
	read   [3]metrics.Sample
}

// restAfter is how many times as long as a collection has taken none follows.
const restAfter = 100

// look is called every memoryEvery, with the number of open connections.
func (m *memory) look(open int, now time.Time) {
	cycles, held, free := m.sample()
	quiet := cycles == m.cycles
	m.cycles = cycles
	if !quiet || held < m.held+idleHeap && free < idleHeap && (open > 0 || m.open == 0) ||
		now.Before(m.until) {
		m.open = max(m.open, open)
		return
	}
	begun := time.Now()
	runtime.GC() // what pools hold survives the first one
	debug.FreeOSMemory()
	m.until = now.Add(restAfter * time.Since(begun))
	m.cycles, m.held, _ = m.sample()
	m.open = open
}

// sample returns how many collections there were, and how many bytes of the heap objects have, and
// nothing.
func (m *memory) sample() (cycles, held, free uint64) {
	m.read[0].Name = "/gc/cycles/total:gc-cycles"
	m.read[1].Name = "/memory/classes/heap/objects:bytes"
	m.read[2].Name = "/memory/classes/heap/free:bytes"
	metrics.Read(m.read[:])
	return m.read[0].Value.Uint64(), m.read[1].Value.Uint64(), m.read[2].Value.Uint64()
}
