package loop

import (
	"fmt"
	"slices"
	"strings"
)

// hintTexts maps functions of package sync that block their goroutine to what a thread should use
// instead. The texts are short, because the log cuts longer ones.
var hintTexts = map[string]string{
	"sync.(*Mutex).Lock":     lockHint,
	"sync.(*RWMutex).Lock":   lockHint,
	"sync.(*RWMutex).RLock":  lockHint,
	"sync.(*Cond).Wait":      waitHint,
	"sync.(*WaitGroup).Wait": waitHint,
	ownBlock: "Lock with nil is for goroutines off the loops: give it the thread, " +
		"as req.Thread",
}

const (
	lockHint = "a thread that holds the lock while it waits, even in a write, may be of this loop, " +
		"which then stands still for good: use loop.Mutex for it, or unlock before each wait"
	waitHint = "what it waits for may be a thread of this loop, which then stands still for good: " +
		"use req.Go and req.Join, a loop.Promise, or lwango.Await"
	tlsHint = "two threads use one tls.Conn, which is for one: see stream.TLSConn"

	shownPlaces = 4 // of threads that wait
)

// ownBlock is where a goroutine waits for a Mutex.
var ownBlock = strings.TrimSuffix(loopLead, "(*Loop).lead") + "(*lockWaiter).block"

// hints returns attributes for the report of a loop that s holds up: what a thread should use in
// place of the call of package sync in which s blocks, and which handlers are suspended, since one
// of these may hold the lock that s waits for. It returns none if s does not block in such a call.
func (s stack) hints(suspended []stack) []any {
	var hint string
	for _, f := range s {
		if hint == "" {
			hint = hintTexts[f.function]
		} else if hint == lockHint && strings.HasPrefix(f.function, "crypto/tls.(*Conn).") {
			hint = tlsHint
		}
	}
	if hint == "" {
		return nil
	}
	attributes := []any{"instead", hint}
	if places := s.suspendedHandlers(suspended); places != "" {
		attributes = append(attributes, "suspended", places)
	}
	return attributes
}

// suspendedHandlers names the handlers of suspended threads, a line for each: first those that are
// in the same function as s.
func (s stack) suspendedHandlers(suspended []stack) string {
	own, _ := s.user()
	var same, others []string
	for _, w := range suspended {
		f, callee := w.user()
		if f.function == "" {
			continue
		}
		places := &others
		if f.function == own.function {
			places = &same
		}
		text := fmt.Sprintf("%s %s in %s\n", f.function, f.position, callee.function)
		if !slices.Contains(*places, text) {
			*places = append(*places, text)
		}
	}
	places := append(same, others...)
	if more := len(places) - shownPlaces; more > 0 {
		places = append(places[:shownPlaces], fmt.Sprintf("and %d other places\n", more))
	}
	return strings.Join(places, "")
}

// user returns the innermost call of s that belongs to neither the standard library nor the
// packages through which threads wait, and the call that it has made.
func (s stack) user() (f, callee frame) {
	root := strings.TrimSuffix(coroPackage, "coro")
	for _, f := range s {
		path := packageOf(f.function)
		own, ours := strings.CutPrefix(path, root)
		ours = ours && (slices.Contains(waitPackages, own) || strings.HasPrefix(own, "internal/"))
		if !ours && !standard(path) {
			return f, callee
		}
		callee = f
	}
	return frame{}, frame{}
}

// waitPackages are lwango's packages that make a handler's thread wait.
var waitPackages = []string{"coro", "loop", "stream", "conn", "client", "handlers/websocket",
	"handlers/sse"}
