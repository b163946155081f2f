package coding

import (
	"encoding/binary"
	"hash/crc32"
	"io"
	"math"
	"sync"
	"sync/atomic"

	"github.com/andybalholm/brotli"
	"github.com/klauspost/compress/flate"
	"github.com/klauspost/compress/zstd"
)

// Encoder encodes one body. It has the methods of conn.Encoder.
type Encoder struct {
	coding Coding
	level  int
	dst    io.Writer
	w      *pooledWriter // nil: at rest, or before the first Write

	counted bool // what w takes is within inUse

	// Of gzip.
	begun bool
	crc   uint32
	size  uint32 // modulo 2^32, as the trailer has it
}

// writer is what the packages of the codings have in common.
type writer interface {
	io.Writer
	Flush() error
	Close() error
	Reset(io.Writer)
}

// pooledWriter is a writer with its destination. Its pool must not hold the destination.
type pooledWriter struct {
	writer
	to struct{ io.Writer }
}

// MaxMemory is what the encoders that are in use at once, and do not rest, may take, in bytes.
// Their pools hold no more than were in use, and the garbage collector empties them.
const MaxMemory = 128 << 20

// costs are what an encoder takes by its level, in KiB, as measured: its tables and its window.
var costs = [Kinds][10]int64{
	Gzip:   {1: 800, 1200, 1200, 950, 1050, 1050, 1000, 1000, 1400},
	Brotli: {1: 300, 900, 900, 1800, 1800, 1800, 1800, 1800, 2600},
	Zstd:   {1: 1000, 1000, 2250, 2250, 2250, 5100, 5100, 5100, 5100},
}

func (e *Encoder) cost() int64 { return costs[e.coding][e.level] << 10 }

var (
	inUse       atomic.Int64 // bytes
	encoders    = sync.Pool{New: func() any { return new(Encoder) }}
	writerPools [Kinds][10]sync.Pool // by level
)

// NewEncoder returns an encoder. It returns nil if those in use take all of MaxMemory: the body is
// then sent as it is. Any goroutine may call it.
func NewEncoder(c Coding, level int) *Encoder {
	e := encoders.Get().(*Encoder)
	e.coding, e.level = c, level
	if !e.count() {
		encoders.Put(e)
		return nil
	}
	return e
}

// count notes that the encoder takes memory. It reports false if there is none left.
func (e *Encoder) count() bool {
	if e.counted {
		return true
	}
	if inUse.Add(e.cost()) > MaxMemory {
		inUse.Add(-e.cost())
		return false
	}
	e.counted = true
	return true
}

// Begin makes the encoder ready for a body that goes to dst.
func (e *Encoder) Begin(dst io.Writer) { e.dst = dst }

// gzipHeader has neither a name nor a time, and an unknown system (RFC 1952 section 2.3).
const gzipHeader = "\x1f\x8b\x08\x00\x00\x00\x00\x00\x00\xff"

// takeWriter takes a writer from its pool if the encoder has none. If there is no memory for one,
// e.w stays nil.
func (e *Encoder) takeWriter() error {
	if e.w == nil && e.count() {
		if e.w, _ = writerPools[e.coding][e.level].Get().(*pooledWriter); e.w == nil {
			e.w = &pooledWriter{writer: newWriter(e.coding, e.level)}
		}
		e.w.to.Writer = e.dst
		e.w.Reset(&e.w.to)
	}
	if e.coding != Gzip || e.begun {
		return nil
	}
	e.begun = true
	_, err := io.WriteString(e.dst, gzipHeader)
	return err
}

// Write implements io.Writer.
func (e *Encoder) Write(p []byte) (int, error) {
	if err := e.takeWriter(); err != nil {
		return 0, err
	}
	if e.coding == Gzip {
		e.crc = crc32.Update(e.crc, crc32.IEEETable, p)
		e.size += uint32(len(p))
	}
	if e.w == nil {
		return e.writeStored(p)
	}
	return e.w.Write(p)
}

// writeStored is Write of an encoder that has rested, if others have taken the memory since. It
// writes stored blocks (RFC 1951 section 3.2.4), which need no tables. They begin at a byte, where
// the flush has ended.
func (e *Encoder) writeStored(p []byte) (n int, err error) {
	for n < len(p) && err == nil {
		k := min(len(p)-n, math.MaxUint16)
		if err = e.storedHead(0, k); err == nil {
			_, err = e.dst.Write(p[n : n+k])
		}
		n += k
	}
	return n, err
}

// storedHead writes the head of a stored block of n bytes. last is 1 for the last block, or else 0.
func (e *Encoder) storedHead(last byte, n int) error {
	head := [5]byte{0: last}
	binary.LittleEndian.PutUint16(head[1:], uint16(n))
	binary.LittleEndian.PutUint16(head[3:], ^uint16(n))
	_, err := e.dst.Write(head[:])
	return err
}

// Flush makes all that was written so far readable to the other side.
func (e *Encoder) Flush() error {
	if e.w == nil {
		return nil
	}
	return e.w.Flush()
}

// Rest gives the encoder's tables back where the coding allows that: after a flush, Deflate needs
// nothing of what came before, and the next block begins with an empty window. So a stream that is
// silent costs a few bytes, however long. The blocks of the other codings refer to the state of
// those before.
func (e *Encoder) Rest() {
	if e.coding == Gzip {
		e.returnWriter()
	}
}

func (e *Encoder) returnWriter() {
	if e.w != nil {
		e.w.to.Writer = nil
		writerPools[e.coding][e.level].Put(e.w)
		e.w = nil
	}
	if e.counted {
		e.counted = false
		inUse.Add(-e.cost())
	}
}

// Close ends the encoded body.
func (e *Encoder) Close() error {
	if err := e.takeWriter(); err != nil {
		return err
	}
	if e.w == nil {
		if err := e.storedHead(1, 0); err != nil {
			return err
		}
	} else if err := e.w.Close(); err != nil || e.coding != Gzip {
		return err
	}
	var trailer [8]byte
	binary.LittleEndian.PutUint32(trailer[:4], e.crc)
	binary.LittleEndian.PutUint32(trailer[4:], e.size)
	_, err := e.dst.Write(trailer[:])
	return err
}

// Release gives the encoder back. The caller does not use it any more.
func (e *Encoder) Release() {
	e.returnWriter()
	*e = Encoder{}
	encoders.Put(e)
}

// Windows, as binary logarithms of bytes. With more than 16, brotli takes other tables for the same
// level: 3.5 MiB at level 4, and 37 at level 9. That gains nothing for a body of 100 KiB, and 4 %
// for one of 1 MiB, or 6 at level 9. The tables of zstd do not depend on its window, which is the
// lesser part.
const (
	brotliWindow = 16
	zstdWindow   = 18
)

func newWriter(c Coding, level int) writer {
	switch c {
	case Brotli:
		return brotli.NewWriterOptions(io.Discard,
			brotli.WriterOptions{Quality: level, LGWin: brotliWindow})
	case Zstd:
		w, err := zstd.NewWriter(io.Discard,
			zstd.WithEncoderLevel(zstd.EncoderLevelFromZstd(level)),
			zstd.WithWindowSize(1<<zstdWindow), zstd.WithLowerEncoderMem(true),
			zstd.WithEncoderConcurrency(1), zstd.WithEncoderCRC(false))
		if err != nil {
			panic(err) // one of the options above is wrong
		}
		return w
	}
	w, err := flate.NewWriter(io.Discard, level)
	if err != nil {
		panic(err) // a level that New has let through
	}
	return w
}
