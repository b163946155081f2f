package uring

import (
	"encoding/binary"
	"fmt"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Buffers are buffers of one size, of which the kernel takes one for each Recv when bytes have
// arrived. They are offered in a third ring, which has no head for us: what the kernel has taken we
// learn by completions.
type Buffers struct {
	ring    *Ring
	group   uint16
	size    int
	memory  []byte
	offered []byte
	entries []bufferEntry
	tail    uint16
}

// NewBuffers offers so many buffers, a power of two up to 32768, of that size to operations that
// name the group.
func (r *Ring) NewBuffers(group uint16, count, size int) (b *Buffers, err error) {
	b = &Buffers{ring: r, group: group, size: size}
	if b.memory, err = Map(count * size); err != nil {
		return nil, err
	}
	if b.offered, err = Map(count * int(unsafe.Sizeof(bufferEntry{}))); err != nil {
		_ = Unmap(b.memory)
		return nil, err
	}
	b.entries = unsafe.Slice((*bufferEntry)(unsafe.Pointer(&b.offered[0])), count)
	if err = b.register(registerBuffers, uint32(count)); err != nil {
		_, _ = Unmap(b.memory), Unmap(b.offered)
		return nil, err
	}
	for id := range count {
		b.Put(uint16(id))
	}
	return b, nil
}

func (b *Buffers) register(what uintptr, count uint32) error {
	reg := bufferRegistration{address: addressOf(b.offered), entries: count, group: b.group}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_REGISTER, uintptr(b.ring.fd), what,
		uintptr(unsafe.Pointer(&reg)), 1, 0, 0)
	if errno != 0 {
		return fmt.Errorf("io_uring_register of buffers: %w", errno)
	}
	return nil
}

// Get returns the first n bytes of a buffer that the kernel has taken.
func (b *Buffers) Get(id uint16, n int) []byte { return b.memory[int(id)*b.size:][:n] }

// Put offers a buffer again.
func (b *Buffers) Put(id uint16) {
	e := &b.entries[int(b.tail)&(len(b.entries)-1)]
	e.address, e.length, e.id = addressOf(b.memory[int(id)*b.size:]), uint32(b.size), id
	b.tail++
	b.publish()
}

// publish lets the kernel see the tail. It has 16 bits, and atomics store 32: the other half is the
// number of the first entry.
func (b *Buffers) publish() {
	var word [4]byte
	binary.NativeEndian.PutUint16(word[:2], b.entries[0].id)
	binary.NativeEndian.PutUint16(word[2:], b.tail)
	at := (*uint32)(unsafe.Pointer(&b.entries[0].id))
	atomic.StoreUint32(at, binary.NativeEndian.Uint32(word[:]))
}

// Close takes the buffers back. No operation may be under way that can take one.
func (b *Buffers) Close() error {
	if err := b.register(unregisterBuffers, 0); err != nil {
		return err // the kernel may still write to them
	}
	_ = Unmap(b.offered)
	return Unmap(b.memory)
}
