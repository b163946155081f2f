package uring

import (
	"fmt"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Ring is a ring. One goroutine uses it, locked to the OS thread that has made it.
type Ring struct {
	fd       int
	queues   []byte // both, as the kernel lays them out
	entryMap []byte

	// The submission queue. The kernel moves head when it takes entries, we move tail when we
	// submit.
	entries     []Entry
	head, tail  *uint32
	state       *uint32
	mask        uint32
	next        uint32 // the tail, with the entries that are not submitted yet
	completions []Completion

	// The completion queue. The kernel moves ready, we move reaped.
	reaped, ready  *uint32
	completionMask uint32

	wait    waitArgument // here, as the kernel reads both
	timeout timespec
}

// New makes a ring for that many entries between two calls of Enter, and that many completions
// between two of Reap, each raised to a power of two. The calling goroutine must be locked to its
// OS thread. An error says why there can be none here; errors.Is finds the kernel's.
func New(entries, completions uint32) (*Ring, error) {
	p := params{completions: completions,
		flags: setupCQSize | setupClamp | setupSubmitAll | setupSingleIssuer | setupDeferTaskrun}
	fd, _, errno := unix.Syscall(unix.SYS_IO_URING_SETUP, uintptr(entries),
		uintptr(unsafe.Pointer(&p)), 0)
	if errno != 0 {
		return nil, refusal(errno)
	}
	r := &Ring{fd: int(fd)}
	if err := r.open(&p); err != nil {
		_ = r.Close()
		return nil, err
	}
	return r, nil
}

// open maps the queues.
func (r *Ring) open(p *params) (err error) {
	const needed = featSingleMmap | featNoDrop
	if p.features&needed != needed {
		return refusal(unix.EINVAL)
	}
	const shared = unix.MAP_SHARED | unix.MAP_POPULATE
	size := max(p.submission.array+4*p.entries,
		p.completion.entriesAt+p.completions*uint32(unsafe.Sizeof(Completion{})))
	r.queues, err = unix.Mmap(r.fd, offsetQueues, int(size), unix.PROT_READ|unix.PROT_WRITE, shared)
	if err != nil {
		return fmt.Errorf("mmap of the queues: %w", err)
	}
	r.entryMap, err = unix.Mmap(r.fd, offsetEntries, int(p.entries)*int(unsafe.Sizeof(Entry{})),
		unix.PROT_READ|unix.PROT_WRITE, shared)
	if err != nil {
		return fmt.Errorf("mmap of the entries: %w", err)
	}
	word := func(offset uint32) *uint32 { return (*uint32)(unsafe.Pointer(&r.queues[offset])) }
	s, c := &p.submission, &p.completion
	r.head, r.tail, r.state, r.mask = word(s.head), word(s.tail), word(s.flags), p.entries-1
	r.entries = unsafe.Slice((*Entry)(unsafe.Pointer(&r.entryMap[0])), p.entries)
	// The queue is an array of indexes into the entries, which may lie in any order. Ours do not.
	order := unsafe.Slice(word(s.array), p.entries)
	for i := range order {
		order[i] = uint32(i)
	}
	r.reaped, r.ready, r.completionMask = word(c.head), word(c.tail), p.completions-1
	r.completions = unsafe.Slice((*Completion)(unsafe.Pointer(&r.queues[c.entriesAt])), p.completions)
	return nil
}

// Next returns the next entry of the submission queue, empty, or nil if the queue is full: then
// Enter makes room. The entry goes to the kernel with the next Enter, and is not to be touched
// after that.
func (r *Ring) Next() *Entry {
	if r.next-atomic.LoadUint32(r.head) > r.mask {
		return nil
	}
	e := &r.entries[r.next&r.mask]
	r.next++
	*e = Entry{}
	return e
}

// Enter submits all entries. Then, unless there are as many completions as wait says already, it
// waits for them: not longer than the timeout, and for ever if that is negative. It also returns
// when a signal comes, when the kernel has too little memory for the entries, which stay in the
// queue, or when so many completions are to be reaped that the kernel takes no entries before. So
// the caller looks at what there is after each call.
func (r *Ring) Enter(wait uint32, timeout time.Duration) error {
	atomic.StoreUint32(r.tail, r.next)
	submit := r.next - atomic.LoadUint32(r.head)
	r.wait.timeout = 0
	if timeout >= 0 {
		r.timeout = timespec{int64(timeout / time.Second), int64(timeout % time.Second)}
		r.wait.timeout = uint64(uintptr(unsafe.Pointer(&r.timeout)))
	}
	_, _, errno := unix.Syscall6(unix.SYS_IO_URING_ENTER, uintptr(r.fd), uintptr(submit),
		uintptr(wait), enterGetEvents|enterExtArg, uintptr(unsafe.Pointer(&r.wait)),
		unsafe.Sizeof(r.wait))
	runtime.KeepAlive(r)
	switch errno {
	case 0, unix.ETIME, unix.EINTR, unix.EBUSY, unix.EAGAIN:
		return nil
	case unix.EEXIST:
		return fmt.Errorf("another thread than the one that has made the ring calls Enter: %w", errno)
	}
	return fmt.Errorf("io_uring_enter: %w", errno)
}

// Reap calls f for each completion that has come, in their order, and returns how many there were.
// f must not call Reap.
func (r *Ring) Reap(f func(Completion)) (n int) {
	first, end := *r.reaped, atomic.LoadUint32(r.ready)
	for at := first; at != end; at++ {
		f(r.completions[at&r.completionMask])
	}
	if first != end {
		atomic.StoreUint32(r.reaped, end)
	}
	return int(end - first)
}

// Overflowed reports whether completions have found the queue full. The kernel keeps them, and
// Enter puts them into the queue when there is room. None is lost, or else, where the kernel has
// had no memory to keep one, Enter fails (EBADR).
func (r *Ring) Overflowed() bool { return atomic.LoadUint32(r.state)&overflowed != 0 }

// Close gives the ring back. The kernel cancels what it still does, but may write to its memory for
// some time longer: to be safe, the caller has seen all completions before.
func (r *Ring) Close() error {
	for _, mapped := range [][]byte{r.queues, r.entryMap} {
		if mapped != nil {
			_ = unix.Munmap(mapped)
		}
	}
	return unix.Close(r.fd)
}

// Map returns memory outside Go's heap, which is zero, and takes no pages of the machine before it
// is used.
func Map(size int) ([]byte, error) {
	p, err := unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANONYMOUS|unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("mmap of %d bytes: %w", size, err)
	}
	return p, nil
}

// Unmap gives back what Map has returned.
func Unmap(p []byte) error { return unix.Munmap(p) }
