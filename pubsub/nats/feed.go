package nats

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	perPage  = 1024    // messages of an answer
	maxBytes = 1 << 20 // of an answer, if it is not one message
)

// feed is a topic that is followed, from one Follow to one Unfollow. Its fields are the reader's.
type feed struct {
	change
	*reader
	subject string // of what was published, in the stream
	sub     *natsgo.Subscription
	gone    bool

	last    uint64 // number in the stream of the last message that was read
	highest uint64 // number of the last message that is known to exist
	history uint64 // number of the last message from before the topic was followed
	seen    engine.Recent
	page    []*natsgo.Msg     // of the answer that is being received
	ready   []*pubsub.Message // read, and not given to the Feed yet
	late    bool              // some of ready are late
	backlog engine.Backlog    // while messages wait there, no more are read

	read   bool // the history was read
	loaded bool // Loaded was called
	past        // until the history was read

	missingSince time.Time // since when answers lack a message that was published
	askLeader    bool      // the next question is for the leader of the stream
	tries        int       // questions without an answer
	session      int       // the session in which the topic was last read up to its end
	deadline     time.Time
	number       int  // of the question
	asked        bool // there is a question without an answer
	queued       bool
	dirty        bool
	retrying     bool
}

// add follows a topic. It subscribes before it asks the server for the history.
func (r *reader) add(c change) {
	name := token(c.topic)
	fd := &feed{change: c, reader: r, subject: topics(r.target.stream) + name,
		backlog: r.base.Backlog(c.topic, c.to)}
	r.feeds[c.topic] = fd
	subject := live(r.target.stream) + name
	r.live[subject] = fd
	var err error
	if fd.sub, err = r.conn.ChanSubscribe(subject, r.msgs); err != nil {
		r.base.Log.Error("nats: a topic cannot be followed", "topic", c.topic, "error", err)
		fd.giveHistory(nil)
		return
	}
	if r.up {
		r.behind++
		r.enqueue(fd)
	} else if !r.conn.IsConnected() {
		fd.giveHistory(nil)
	}
}

// drop ends a feed; nil is none.
func (r *reader) drop(fd *feed) {
	if fd == nil {
		return
	}
	fd.gone = true
	delete(r.feeds, fd.topic)
	delete(r.live, live(r.target.stream)+token(fd.topic))
	if fd.asked {
		delete(r.asked, fd.number)
	}
	if fd.sub != nil {
		_ = fd.sub.Unsubscribe() // fails without a connection, and then it is not needed
	}
	fd.caughtUpWith()
}

// giveHistory gives subscribers the history, once.
func (fd *feed) giveHistory(history []*pubsub.Message) {
	fd.loaded = true
	fd.to.Loaded(history)
}

// ask asks for the next page.
func (fd *feed) ask() {
	from := fd.last + 1
	if !fd.read {
		from = fd.past.next
	}
	where := "$JS.API.DIRECT.GET."
	question := map[string]any{"seq": max(from, 1), "next_by_subj": fd.subject}
	if fd.askLeader {
		where = "$JS.API.STREAM.MSG.GET."
	} else {
		question["batch"], question["max_bytes"] = perPage, maxBytes
	}
	data, err := json.Marshal(question)
	if err != nil {
		panic(err)
	}
	fd.page, fd.asked, fd.deadline = nil, true, time.Now().Add(engine.AnswerTimeout/2)
	fd.number = fd.question(where+fd.target.stream, data)
	fd.reader.asked[fd.number] = fd
}

// answer takes a part of an answer.
func (fd *feed) answer(n int, m *natsgo.Msg) {
	fd.tries = 0
	switch status := m.Header.Get(headerStatus); status {
	case "": // a message
		if fd.askLeader {
			delete(fd.reader.asked, n)
			fd.asked, fd.askLeader = false, false
			fd.leaderAnswer(m)
			return
		}
		fd.page = append(fd.page, m)
		fd.deadline = time.Now().Add(engine.AnswerTimeout / 2)
		return
	case "204": // the end of the page
		fd.reader.last = max(fd.reader.last, number(m, headerBefore))
	case "404": // no messages
	case "503":
		fd.fail(errNowhere)
		return
	default:
		fd.fail(errors.New(fmt.Sprint("JetStream: ", status, " ", m.Header.Get("Description"))))
		return
	}
	delete(fd.reader.asked, n)
	fd.asked = false
	page, left := fd.page, number(m, headerLeft)
	fd.page = nil
	if !fd.read && fd.remember(page, left) {
		fd.enqueue(fd)
		return
	}
	for _, m := range page {
		fd.take(m, number(m, headerSeq), true)
	}
	switch n, _ := fd.backlog.Waiting(); {
	case left > 0:
		if len(fd.ready)+n == 0 {
			fd.enqueue(fd)
		} else {
			fd.highest = max(fd.highest, fd.last+1) // offer asks for more when there is room
		}
	case fd.highest > fd.last:
		fd.noteMissing(len(page) == 0)
		fd.retrySoon()
		return
	case fd.session != fd.reader.session:
		fd.checkLater(fd)
		fd.caughtUpWith()
	}
	fd.markDirty()
}

// noteMissing notes whether an answer lacks a published message: the server that has answered does
// not have it yet, or the message was removed. If it does not come soon, the next question is for
// the server that leads the stream, which knows.
func (fd *feed) noteMissing(empty bool) {
	switch {
	case !empty:
		fd.missingSince = time.Time{}
	case fd.missingSince.IsZero():
		fd.missingSince = time.Now()
	case time.Since(fd.missingSince) > pollEvery:
		fd.askLeader = true
	}
}

// leaderAnswer takes the leader's answer.
func (fd *feed) leaderAnswer(m *natsgo.Msg) {
	var answer struct {
		Message *struct {
			Seq    uint64    `json:"seq"`
			Header []byte    `json:"hdrs"`
			Data   []byte    `json:"data"`
			Time   time.Time `json:"time"`
		} `json:"message"`
		Error *jetstream.APIError `json:"error"`
	}
	err := json.Unmarshal(m.Data, &answer)
	fd.missingSince = time.Time{}
	switch {
	case err != nil:
		fd.fail(err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		fd.last = fd.highest // it was removed
		fd.enqueue(fd)
	case answer.Error != nil:
		fd.fail(answer.Error)
	case answer.Message == nil:
		fd.fail(errSilent)
	default:
		header := natsgo.Header{}
		if len(answer.Message.Header) > 0 {
			if header, err = natsgo.DecodeHeadersMsg(answer.Message.Header); err != nil {
				header = natsgo.Header{}
			}
		}
		header.Set(headerStamp, answer.Message.Time.Format(time.RFC3339Nano))
		fd.take(&natsgo.Msg{Header: header, Data: answer.Message.Data}, answer.Message.Seq, true)
		fd.enqueue(fd)
	}
}

// caughtUpWith notes that the feed has read the topic up to its end.
func (fd *feed) caughtUpWith() {
	if r := fd.reader; r.up && fd.session != r.session {
		fd.session = r.session
		r.behind--
		r.caughtUp()
	}
}

// arrived takes a message as it is published.
func (fd *feed) arrived(m *natsgo.Msg) {
	seq := number(m, headerSeq)
	switch {
	case seq <= fd.last:
	case !fd.read || fd.asked || fd.queued || fd.retrying || fd.session != fd.reader.session,
		number(m, headerBefore) > fd.last: // it is read from the stream, after those before it
		fd.highest = max(fd.highest, seq)
		if fd.read && !fd.retrying {
			fd.enqueue(fd)
		}
	default:
		fd.take(m, seq, false)
	}
}

// take takes the next message, in the order of the stream. It is late if it was read after an
// outage.
func (fd *feed) take(m *natsgo.Msg, seq uint64, late bool) {
	if seq <= fd.last {
		return
	}
	fd.last = seq
	fd.reader.last = max(fd.reader.last, seq)
	if e := decode(m, seq, fd.foreign); e.origin != fd.base.Hub.Origin() {
		fresh, lost := fd.seen.Fresh(e.origin, e.number, e.Count)
		if lost > 0 {
			fd.ready = append(fd.ready, fd.backlog.Lost(lost))
		}
		if fresh {
			fd.ready = append(fd.ready, e.Message)
			fd.late = fd.late || late || e.late
		}
	}
	fd.markDirty()
}

func (fd *feed) markDirty() {
	if !fd.dirty {
		fd.dirty = true
		fd.reader.dirty = append(fd.reader.dirty, fd)
	}
}

// offer gives the subscribers the messages that were read, as far as there is room, and then asks
// for those that came meanwhile.
func (fd *feed) offer() {
	if fd.gone || fd.retrying {
		return
	}
	fd.backlog.Retry()
	fd.backlog.Add(fd.ready, fd.late)
	fd.ready, fd.late = nil, false
	if n, _ := fd.backlog.Waiting(); n > 0 {
		fd.retrySoon()
	} else if fd.read && fd.highest > fd.last {
		fd.enqueue(fd)
	}
}

// retrySoon makes the reader call offer again after engine.RetryAfter.
func (fd *feed) retrySoon() {
	if !fd.retrying {
		fd.retrying = true
		fd.later = append(fd.later, fd)
	}
}
