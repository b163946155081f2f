package pubsub

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
)

// Selection is a pattern or a queue group. Its log gets the messages of all topics that match the
// pattern, or those of a topic or a pattern for the queue group.
type Selection struct {
	Name    string // of a topic, or a pattern
	Pattern bool
	Group   string // if it is not empty, each message is for one of the group's members
}

// selected is the state of a selection's log.
type selected struct {
	Selection
	fromEngine bool   // all of its messages come from the engine
	taken      uint64 // for a group: number of the next message that a member gets
}

// matches are what gets the messages of a topic, too.
type matches struct {
	version uint64 // of the hub's selections, for which that holds
	logs    []*log
}

// checkPattern returns what is wrong with a pattern.
func checkPattern(pattern string) error {
	words := strings.Split(pattern, ".")
	for i, w := range words {
		switch {
		case w == "":
			return fmt.Errorf("pattern %q has an empty word", pattern)
		case w == ">" && i < len(words)-1:
			return fmt.Errorf("pattern %q has a > that is not its last word", pattern)
		}
	}
	return nil
}

// selections are the logs of selections. A goroutine that holds the lock takes no other lock.
type selections struct {
	version  atomic.Uint64 // grows with each change
	rotation atomic.Uint64 // which loop is asked first for a member of a queue group

	mu    sync.RWMutex
	logs  map[Selection]*log
	exact map[string][]*log // queue groups, by topic
	root  node              // of the patterns
}

// node is a word of patterns in a tree. So a publisher visits only patterns that begin with the
// words of its topic.
type node struct {
	children map[string]*node // by word; * is one of them
	logs     []*log           // of patterns that end here
	tails    []*log           // of patterns that end with a > after this word
}

const (
	anyWord  = "*"
	allWords = ">"
)

// match returns the logs of queue groups of a topic and, if patterns is set, of the patterns that
// match it.
func (ss *selections) match(topic string, patterns bool) (all []*log) {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	if all = append(all, ss.exact[topic]...); patterns {
		all = ss.root.match(all, topic, true)
	}
	return all
}

// match appends the logs of the patterns below n that match words; more says that words are left.
func (n *node) match(all []*log, words string, more bool) []*log {
	if !more {
		return append(all, n.logs...)
	}
	all = append(all, n.tails...)
	word, words, more := strings.Cut(words, ".")
	if b := n.children[word]; b != nil && word != anyWord {
		all = b.match(all, words, more)
	}
	if b := n.children[anyWord]; b != nil {
		all = b.match(all, words, more)
	}
	return all
}

// add makes l get the messages that it selects from now on.
func (ss *selections) add(l *log) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.logs == nil {
		ss.logs, ss.exact = make(map[Selection]*log), make(map[string][]*log)
	}
	s := l.selection
	ss.logs[s.Selection] = l
	switch {
	case s.fromEngine:
		return
	case s.Pattern:
		ss.root.add(s.Name, l)
	default:
		ss.exact[s.Name] = append(ss.exact[s.Name], l)
	}
	ss.version.Add(1)
}

func (ss *selections) find(s Selection) *log {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return ss.logs[s]
}

// all returns the logs.
func (ss *selections) all() []*log {
	ss.mu.RLock()
	defer ss.mu.RUnlock()
	return slices.Collect(maps.Values(ss.logs))
}

func (n *node) add(words string, l *log) {
	word, words, more := strings.Cut(words, ".")
	if word == allWords {
		n.tails = append(n.tails, l)
		return
	}
	b := n.children[word]
	if b == nil {
		if n.children == nil {
			n.children = make(map[string]*node)
		}
		b = new(node)
		n.children[word] = b
	}
	if !more {
		b.logs = append(b.logs, l)
		return
	}
	b.add(words, l)
}

// remove undoes add.
func (ss *selections) remove(l *log) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	s := l.selection
	delete(ss.logs, s.Selection)
	switch {
	case s.fromEngine:
		return
	case s.Pattern:
		ss.root.remove(s.Name, l)
	default:
		if rest := without(ss.exact[s.Name], l); len(rest) > 0 {
			ss.exact[s.Name] = rest
		} else {
			delete(ss.exact, s.Name)
		}
	}
	ss.version.Add(1)
}

func (n *node) remove(words string, l *log) {
	word, words, more := strings.Cut(words, ".")
	if word == allWords {
		n.tails = without(n.tails, l)
		return
	}
	b := n.children[word]
	if more {
		b.remove(words, l)
	} else {
		b.logs = without(b.logs, l)
	}
	if len(b.children)+len(b.logs)+len(b.tails) == 0 {
		delete(n.children, word)
	}
}

func without(all []*log, l *log) []*log {
	return slices.DeleteFunc(all, func(o *log) bool { return o == l })
}

// selected returns the logs of selections that get the messages of l, too. The caller holds the
// lock of l.
func (l *log) selected() []*log {
	ss := &l.hub.selections
	v := ss.version.Load()
	if l.matches == nil {
		if v == 0 {
			return nil
		}
		l.matches = new(matches)
	}
	if l.matches.version != v {
		_, ofServer := programName(l.name)
		*l.matches = matches{v, ss.match(l.name, !ofServer)}
	}
	return l.matches.logs
}

// openSelection returns the log of a selection, and makes one, for messages that are to wait in a
// queue, if there is none. The caller holds h.mu.
func (h *Hub) openSelection(s Selection, queue int) (*log, error) {
	if l := h.selections.find(s); l != nil {
		return l, nil
	}
	l := newLog(h, s.Name)
	l.selection = &selected{Selection: s, taken: origin}
	l.depth = int32(queue) // the engine may be quick
	if h.engine != nil {
		e, ok := h.engine.(Selector)
		if !ok {
			return nil, errNoSelector
		}
		l.feed, l.selection.fromEngine = &Feed{log: l}, s.Group != ""
		if err := e.Select(s, l.feed); err != nil {
			l.mu.Lock()
			defer l.mu.Unlock()
			l.feed = nil
			l.shrink(0)
			return nil, err
		}
	}
	h.selections.add(l)
	return l, nil
}

var errNoSelector = fmt.Errorf("the broker carries neither patterns nor queue groups: %w",
	errors.ErrUnsupported)
