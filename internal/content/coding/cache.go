package coding

import (
	"bytes"
	"container/list"
	"errors"
	"io"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/lwango/lwango/loop"
)

// Key names one state of one file in one coding. A file that was written to has another time of
// change, whatever its time of modification says.
type Key struct {
	Dev, Ino          uint64
	Source            uint64 // not 0: a file system without these, in which Name is the file's
	Name              string
	Size              int64 // in bytes
	Modified, Changed int64 // Unix nanoseconds
	Coding            Coding
	Level             int
}

// Cache holds encoded files up to a number of bytes. Those that were asked for longest ago make
// way. Any goroutine may use it.
type Cache struct {
	limit int64

	mu      sync.Mutex
	entries map[Key]*entry
	order   list.List // of *entry, those that are kept, the one that was asked for last in front
	bytes   int64
}

type entry struct {
	key  Key
	kept *list.Element // in order; nil: it is being made
	cost int64
	body loop.Promise[[]byte]
}

// entryCost is what an entry takes beside its body and its name, in bytes, about.
const entryCost = 400

// NewCache returns an empty cache; nil if limit, in bytes, is not positive.
func NewCache(limit int64) *Cache {
	if limit <= 0 {
		return nil
	}
	return &Cache{limit: limit, entries: make(map[Key]*entry)}
}

// making is how many files are being made, of all caches: all have the same processors.
var making atomic.Int32

// begin counts one more, and reports false if there are enough. They compute for long, and the
// loops need processors, too. One is not counted: the server has one more than loops.
func begin() bool {
	if making.Add(1) <= int32(max((runtime.GOMAXPROCS(0)-1)/4, 1)) {
		return true
	}
	making.Add(-1)
	return false
}

// longest bounds a file of a large cache, in bytes: nothing of it is sent until all is encoded, and
// the memory in which that is done counts against nothing.
const longest = 8 << 20

// MaxFile is the length of the longest file that is kept, in bytes: one must not take the place of
// all others.
func (c *Cache) MaxFile() int64 { return min(c.limit/8, longest) }

// Get returns the promise of the encoded file, which is settled if the file is kept. The promise
// may be one of nil: then the file could not be encoded. Get returns nil if there is nothing, and
// enough others are being made just now. If mine is true, there was nothing, and the caller has to
// call Make or Put.
func (c *Cache) Get(key Key) (body *loop.Promise[[]byte], mine bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if e := c.entries[key]; e != nil {
		if e.kept != nil {
			c.order.MoveToFront(e.kept)
		}
		return &e.body, false
	}
	if !begin() {
		return nil, false
	}
	e := &entry{key: key}
	c.entries[key] = e
	return &e.body, true
}

// Put settles the promise that Get has given, and keeps body, which must not change any more. nil:
// it could not be made.
func (c *Cache) Put(key Key, body []byte) {
	making.Add(-1)
	c.mu.Lock()
	e := c.entries[key]
	e.cost = int64(len(body)+len(key.Name)) + entryCost
	if body == nil || e.cost > c.MaxFile() {
		delete(c.entries, key)
	} else {
		e.kept = c.order.PushFront(e)
		for c.bytes += e.cost; c.bytes > c.limit; {
			last := c.order.Remove(c.order.Back()).(*entry)
			delete(c.entries, last.key)
			c.bytes -= last.cost
		}
	}
	c.mu.Unlock()
	e.body.Resolve(body)
}

// Make encodes what from has, on a goroutine of its own, which start starts, and calls Put. At the
// end the goroutine calls unchanged, and puts nothing if the file is not in the key's state any
// more.
func (c *Cache) Make(start func(func()), key Key, from io.Reader, unchanged func() bool) {
	start(func() {
		var body []byte
		// A panic of an encoder is not the end of the process: the file is then encoded while it is
		// sent, and what fails there is logged.
		defer func() {
			_ = recover()
			c.Put(key, body)
		}()
		made, err := encodeAll(key, from)
		if unchanged() && err == nil {
			body = made
		}
	})
}

var errNoMemory = errors.New("all encoders are in use")

// encodeAll returns the encoded form of all that from has.
func encodeAll(key Key, from io.Reader) ([]byte, error) {
	e := NewEncoder(key.Coding, key.Level)
	if e == nil {
		return nil, errNoMemory
	}
	defer e.Release()
	var out bytes.Buffer
	out.Grow(int(key.Size / 4))
	e.Begin(&out)
	n, err := io.CopyBuffer(e, io.LimitReader(from, key.Size), make([]byte, min(key.Size, 64<<10)))
	if err == nil && n < key.Size {
		err = io.ErrUnexpectedEOF
	}
	if err == nil {
		err = e.Close()
	}
	return bytes.Clone(out.Bytes()), err // without what is left over
}
