package loop_test

import (
	"fmt"
	"log"
	"sync"
	"time"

	"github.com/lwango/lwango/loop"
)

// A mailbox is a Source with room for one letter. One thread at a time waits for it, and any
// goroutine delivers.
type mailbox struct {
	mu     sync.Mutex
	letter string
	waiter *loop.Thread
}

func (m *mailbox) Watch(t *loop.Thread) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.waiter != nil {
		return loop.ErrAwaited
	}
	m.waiter = t
	return nil
}

func (m *mailbox) Ready() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.letter != ""
}

func (m *mailbox) Unwatch(*loop.Thread) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.waiter = nil
}

// deliver may be called by any goroutine.
func (m *mailbox) deliver(letter string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.letter = letter
	if m.waiter != nil {
		loop.Notify(m.waiter)
	}
}

func (m *mailbox) take() (letter string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	letter, m.letter = m.letter, ""
	return letter
}

// Any package can have things that threads wait for.
func ExampleSource() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	box := new(mailbox)
	l.Go(func(t *loop.Thread) {
		if _, err := t.AwaitAny(time.Minute, box); err != nil {
			log.Print(err)
			return
		}
		fmt.Println(box.take())
	})
	go box.deliver("greetings")
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// greetings
}
