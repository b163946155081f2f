package server

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

// memoryInterval is how often check is called. It is a variable only for the tests.
var memoryInterval = 15 * time.Second

// idleHeap is how many bytes a collection must promise to free.
const idleHeap = 8 << 20

// memoryReleaser returns memory to the system after a burst. Go's collector runs when the heap has
// doubled, or else every two minutes; an idle server does not double its heap, and pools keep their
// contents over one collection. So memoryReleaser runs the collector if no collection has come
// since the last check, and there is memory to free. A busy server has collections anyway.
//
// With a large heap a collection takes long, and a server that is hardly used always has memory to
// free. So after a collection there is a pause, a hundred times as long as the collection took.
type memoryReleaser struct {
	cycles      uint64
	held        uint64 // by objects, when memory was last given back
	open        int    // connections then
	pausedUntil time.Time
	read        [3]metrics.Sample
}

// pauseFactor is how many times as long as a collection the pause after it lasts.
const pauseFactor = 100

// check is called every memoryInterval, with the number of open connections.
func (m *memoryReleaser) check(open int, now time.Time) {
	cycles, held, free := m.sample()
	quiet := cycles == m.cycles
	m.cycles = cycles
	if !quiet || held < m.held+idleHeap && free < idleHeap && (open > 0 || m.open == 0) ||
		now.Before(m.pausedUntil) {
		m.open = max(m.open, open)
		return
	}
	begun := time.Now()
	runtime.GC() // what pools hold survives the first one
	debug.FreeOSMemory()
	m.pausedUntil = now.Add(pauseFactor * time.Since(begun))
	m.cycles, m.held, _ = m.sample()
	m.open = open
}

// sample returns the number of collections, and how many bytes of the heap are held by objects and
// how many are free.
func (m *memoryReleaser) sample() (cycles, held, free uint64) {
	m.read[0].Name = "/gc/cycles/total:gc-cycles"
	m.read[1].Name = "/memory/classes/heap/objects:bytes"
	m.read[2].Name = "/memory/classes/heap/free:bytes"
	metrics.Read(m.read[:])
	return m.read[0].Value.Uint64(), m.read[1].Value.Uint64(), m.read[2].Value.Uint64()
}
