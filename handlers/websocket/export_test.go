package websocket

import "time"

// BufferSize is how much is read at once, in bytes.
const BufferSize = bufferSize

// SetCloseWait bounds the wait for the answer to a close. It is for before any server runs; restore
// is for after.
func SetCloseWait(d time.Duration) (restore func()) {
	old := closeWait
	closeWait = d
	return func() { closeWait = old }
}

// WindowsHeld returns how many connections have a window of what they have sent.
func WindowsHeld() int { return int(windowsHeld.Load()) }
