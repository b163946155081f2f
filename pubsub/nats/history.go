package nats

import (
	"slices"
	"time"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lwango/lwango/pubsub"
)

// past is how far the history of a topic has been read. A stream is read forwards only. So if a
// topic has more messages than a hub keeps, the reader finds the last ones by trial.
type past struct {
	next     uint64 // number in the stream of the first message that is asked for
	first    uint64 // the topic's first message
	distance uint64 // of the trial from the stream's end; 0 before the first trial
	placed   bool   // next is right, and the topic is read from there to its end
	found    []*natsgo.Msg
	bytes    int
}

// remember takes a page of the history, and reports whether another one is to be read. When it has
// all pages, it gives the hub the messages from before the Follow as the history, and the others as
// later messages. The server has stamped the messages by its clock; clockAhead says how far that is
// ahead of ours.
func (fd *feed) remember(page []*natsgo.Msg, left uint64) (more bool) {
	p := &fd.past
	keep := uint64(fd.to.Depth()) + 1 // one more shows the hub that it does not have all
	from := fd.since.Add(fd.clockAhead)
	if !p.placed {
		have := uint64(len(page)) + left
		if p.first == 0 && len(page) > 0 {
			p.first = number(page[0], headerSeq)
		}
		end := fd.reader.last
		switch {
		case left == 0 && p.distance == 0, // the page has all messages
			p.distance > 0 && p.next <= p.first,
			p.distance > 0 && have >= keep && stamp(page[0]).Before(from): // some of it is history
			p.placed = true
		case p.distance == 0:
			p.distance = max((end-min(p.first, end))/have*keep*3/2, keep)
		default:
			p.distance *= 4
		}
		if !p.placed {
			p.next = max(end-min(p.distance, end), p.first)
			return true
		}
	}
	for _, m := range page {
		p.found = append(p.found, m)
		p.bytes += len(m.Data)
		p.next = number(m, headerSeq) + 1
		// What is older than the hub keeps is dropped, unless it is news.
		for len(p.found) > 1 && (len(p.found) > int(keep) ||
			p.bytes-len(p.found[0].Data) > fd.base.Hub.Limits.TopicBytes) && stamp(p.found[0]).Before(from) {
			p.bytes -= len(p.found[0].Data)
			p.found = p.found[1:]
		}
	}
	if left > 0 {
		return true
	}
	var history, news []*pubsub.Message
	for _, m := range p.found {
		seq := number(m, headerSeq)
		fd.last = seq
		e := decode(m, seq, fd.foreign)
		fresh, lost := fd.seen.Fresh(e.origin, e.number, e.Count)
		if !fresh {
			continue
		}
		// Ours are not read again, and the hub knows them.
		if e.stored.Before(from) {
			fd.history = seq
			history = append(history, e.Message)
		} else if e.origin == fd.base.Hub.Origin() {
			history = append(history, e.Message)
		} else {
			if lost > 0 {
				news = append(news, fd.backlog.Lost(lost))
			}
			news = append(news, e.Message)
		}
	}
	fd.reader.last = max(fd.reader.last, fd.last)
	for _, m := range fd.pending {
		if !slices.ContainsFunc(history, func(o *pubsub.Message) bool { return o.ID == m.ID }) {
			history = append(history, m)
		}
	}
	fd.giveHistory(history)
	fd.ready, fd.late = append(fd.ready, news...), true
	fd.read, fd.past, fd.pending = true, past{}, nil
	return false
}

// stamp returns when a message was stored.
func stamp(m *natsgo.Msg) time.Time {
	at, _ := time.Parse(time.RFC3339Nano, m.Header.Get(headerStamp))
	return at
}
