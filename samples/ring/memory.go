package main

import (
	"errors"

	"github.com/lwango/lwango/samples/ring/uring"
)

// blockSize is the size of a block: what one write sends at most, and one read of a file gets.
const blockSize = 32 << 10

// blocks are pieces of memory for output, outside Go's heap. Who takes one has it until the last
// operation on it has completed.
type blocks struct {
	memory []byte
	free   [][]byte
}

func newBlocks(n int) (b blocks, err error) {
	if b.memory, err = uring.Map(n * blockSize); err != nil {
		return b, err
	}
	for i := n - 1; i >= 0; i-- {
		b.free = append(b.free, b.memory[i*blockSize:][:blockSize:blockSize])
	}
	return b, nil
}

// take returns a block, and panics if there is none: there are as many as there may be connections.
func (b *blocks) take() []byte {
	last := len(b.free) - 1
	block := b.free[last]
	b.free = b.free[:last]
	return block
}

// give takes a block back.
func (b *blocks) give(block []byte) { b.free = append(b.free, block) }

func (b *blocks) close() error {
	if len(b.free)*blockSize != len(b.memory) {
		return errors.New("a block is still in use")
	}
	return uring.Unmap(b.memory)
}
