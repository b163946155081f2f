package uring

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Nop does nothing, and succeeds.
func (e *Entry) Nop() { e.opcode = opNop }

// Accept accepts a connection, and its result is the descriptor. Like all operations it waits in
// the kernel, unless the listening socket is O_NONBLOCK: then it fails with EAGAIN.
func (e *Entry) Accept(fd int) {
	e.opcode, e.fd, e.opFlags = opAccept, int32(fd), unix.SOCK_CLOEXEC
}

// Recv receives into a buffer of the group, which the kernel takes when bytes arrive, so that a
// connection that is idle has none. The Completion has the buffer's number. Without a buffer left
// the result is ENOBUFS. The kernel does not look for bytes before it waits for them: mostly there
// are none yet.
func (e *Entry) Recv(fd int, group uint16) {
	e.opcode, e.fd, e.flags, e.bufferGroup = opRecv, int32(fd), selectBuf, group
	e.priority = pollFirst
}

// Send sends p. With MSG_WAITALL the kernel goes on after a short send by itself; the result is
// less than len(p) only if the connection fails or the operation is canceled meanwhile.
func (e *Entry) Send(fd int, p []byte) {
	e.opcode, e.fd, e.opFlags = opSend, int32(fd), unix.MSG_NOSIGNAL|unix.MSG_WAITALL
	e.address, e.length = addressOf(p), uint32(len(p))
}

// SendSome is Send without MSG_WAITALL: as much as there is room for.
func (e *Entry) SendSome(fd int, p []byte) {
	e.Send(fd, p)
	e.opFlags = unix.MSG_NOSIGNAL
}

// Read reads from a file at an offset into p, which must be of Map. Pages that are not in memory
// are read by the disk's interrupt, or by a thread of the kernel.
func (e *Entry) Read(fd int, p []byte, offset int64) {
	e.opcode, e.fd, e.offset = opRead, int32(fd), uint64(offset)
	e.address, e.length = addressOf(p), uint32(len(p))
}

// Open opens a name, which ends in a zero byte, relative to a folder, as openat2(2) does. The name
// and how must be of the heap, and stay there, until the completion.
func (e *Entry) Open(folder int, name []byte, how *unix.OpenHow) {
	e.opcode, e.fd, e.address = opOpenat2, int32(folder), addressOf(name)
	e.length, e.offset = unix.SizeofOpenHow, uint64(uintptr(unsafe.Pointer(how)))
}

// Poll waits for events of poll(2), such as POLLIN.
func (e *Entry) Poll(fd int, events uint32) {
	e.opcode, e.fd, e.opFlags = opPollAdd, int32(fd), events
}

// Close closes a descriptor. There is a Completion only if that fails.
func (e *Entry) Close(fd int) { e.opcode, e.fd, e.flags = opClose, int32(fd), skipSuccess }

// Cancel cancels the operation with that UserData, whose Completion is still to come: with
// ECANCELED, or with what it has done before. There is a Completion of Cancel itself only if there
// is no such operation, or if it cannot be canceled any more.
func (e *Entry) Cancel(userData uint64) {
	e.opcode, e.fd, e.flags, e.address = opCancel, -1, skipSuccess, userData
}

func addressOf(p []byte) uint64 { return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(p)))) }
