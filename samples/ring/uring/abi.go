package uring

// This is of the kernel's include/uapi/linux/io_uring.h, as far as the package needs it.

// Entry is an entry of the submission queue (struct io_uring_sqe). Its methods fill it in.
type Entry struct {
	opcode      uint8
	flags       uint8
	priority    uint16
	fd          int32
	offset      uint64 // or a second address
	address     uint64
	length      uint32
	opFlags     uint32 // of the operation, such as MSG_WAITALL
	UserData    uint64 // for the caller: that of the Completion
	bufferGroup uint16
	personality uint16
	fileIndex   int32
	_           [2]uint64
}

// Completion is an entry of the completion queue (struct io_uring_cqe).
type Completion struct {
	UserData uint64 // of the Entry
	Result   int32  // what the system call would return, with a negative errno for an error
	flags    uint32
}

// Buffer returns the number of the buffer that the kernel has chosen for the operation, and whether
// there is one.
func (c Completion) Buffer() (id uint16, ok bool) {
	return uint16(c.flags >> bufferShift), c.flags&hasBuffer != 0
}

// Operations.
const (
	opNop       = 0
	opPollAdd   = 6
	opAccept    = 13
	opCancel    = 14
	opClose     = 19
	opRead      = 22
	opSend      = 26
	opRecv      = 27
	opOpenat2   = 28
	selectBuf   = 1 << 5 // flags: IOSQE_BUFFER_SELECT
	skipSuccess = 1 << 6 // flags: IOSQE_CQE_SKIP_SUCCESS, no completion for what succeeds
	pollFirst   = 1 << 0 // priority: IORING_RECVSEND_POLL_FIRST, wait before the first attempt
)

// Flags of completions.
const (
	hasBuffer   = 1 << 0
	bufferShift = 16
)

// What io_uring_setup is asked for.
const (
	setupCQSize       = 1 << 3
	setupClamp        = 1 << 4  // no more entries than there may be
	setupSubmitAll    = 1 << 7  // a refused entry gets its completion, and those behind it are taken
	setupSingleIssuer = 1 << 12 // one thread submits
	setupDeferTaskrun = 1 << 13 // what completes is finished within io_uring_enter, at no other time
)

// Features that the kernel reports.
const (
	featSingleMmap = 1 << 0 // both queues are in one mapping
	featNoDrop     = 1 << 1 // completions without room in the queue are kept
)

// Flags of io_uring_enter, and of the submission queue.
const (
	enterGetEvents = 1 << 0
	enterExtArg    = 1 << 3
	overflowed     = 1 << 1 // completions wait in the kernel for room in the queue
)

const (
	registerBuffers   = 22 // IORING_REGISTER_PBUF_RING
	unregisterBuffers = 23
	offsetQueues      = 0
	offsetEntries     = 0x10000000
)

// params is struct io_uring_params.
type params struct {
	entries, completions, flags uint32
	threadCPU, threadIdle       uint32
	features                    uint32
	_                           [4]uint32
	submission                  struct {
		head, tail, mask, entries, flags, dropped, array uint32
		_                                                [3]uint32
	}
	completion struct {
		head, tail, mask, entries, overflow, entriesAt, flags uint32
		_                                                     [3]uint32
	}
}

// waitArgument is struct io_uring_getevents_arg.
type waitArgument struct {
	signals     uint64
	signalsSize uint32
	_           uint32
	timeout     uint64 // the address of a timespec
}

// timespec is struct __kernel_timespec.
type timespec struct{ seconds, nanoseconds int64 }

// bufferEntry is struct io_uring_buf. The tail of the ring is in the last field of the first one.
type bufferEntry struct {
	address uint64
	length  uint32
	id      uint16
	tail    uint16
}

// bufferRegistration is struct io_uring_buf_reg.
type bufferRegistration struct {
	address uint64
	entries uint32
	group   uint16
	_       uint16
	_       [3]uint64
}
