package websocket

import (
	"testing"
	"time"
	"unicode/utf8"
)

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
func WindowsHeld() int { return int(windowCount.Load()) }

// WindowsAgreed returns how many bytes the windows of what peers have sent may take that were
// agreed upon. LeaveWindows leaves room for so many bytes more, until restore.
func WindowsAgreed() int64 { return readWindowBytes.Load() }

func LeaveWindows(n int64) (restore func()) {
	taken := maxReadWindows - n - readWindowBytes.Load()
	readWindowBytes.Add(taken)
	return func() { readWindowBytes.Add(-taken) }
}

// CheckUTF8 checks a text in parts of 0 to 3 bytes, which cuts says.
func CheckUTF8(t *testing.T, p []byte, cuts uint16) {
	var u runes
	want := utf8.Valid(p)
	rest, ok := p, true
	for ok && len(rest) > 0 {
		n := min(int(cuts&3), len(rest))
		if cuts >>= 2; cuts == 0 {
			n = len(rest)
		}
		ok, rest = u.add(rest[:n]), rest[n:]
		so := p[:len(p)-len(rest)]
		if _, may := validUTF8(so); len(so) > 0 && may != ok {
			t.Fatalf("%x: %v after %x", p, ok, so)
		}
	}
	if got := ok && u.whole(); got != want {
		t.Fatalf("%x: %v, want %v", p, got, want)
	}
}

// AcceptKey is what proves that a handshake was understood.
func AcceptKey(key string) string { return acceptKey(key) }

// Stuff sends bytes that are no frame until there is room for no more.
func Stuff(c *Conn) {
	for n, err := 1, error(nil); n > 0 && err == nil; {
		n, err = c.link.TryWrite(make([]byte, 64<<10))
	}
}

// MaxShare is how many of these bytes an address may have, if the others want them.
const MaxShare = maxClientWindows

// Shares returns how many addresses have some.
func Shares() int {
	sharesMu.Lock()
	defer sharesMu.Unlock()
	return len(windowsByClient)
}

// SetLastWords bounds how long a connection still sends at a stop. It is for before any server
// runs.
func SetLastWords(d time.Duration) { finalSendTime = d }
