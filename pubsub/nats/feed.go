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
	top     uint64 // and of the last one that is known to be there
	history uint64 // and of the last one from before the topic was followed
	seen    engine.Recent
	page    []*natsgo.Msg     // of the answer that comes
	ready   []*pubsub.Message // read, and not given yet
	late    bool              // some of that is
	backlog engine.Backlog    // while something waits there, no more is read

	read bool // the history was read
	told bool // subscribers do not wait for it any more
	past      // until it was read

	empty    time.Time // since when the answer lacks a message that was published
	doubt    bool      // it is the leader who is asked
	tries    int       // questions without an answer
	session  int       // in which it was read up to its end
	deadline time.Time
	number   int  // of the question
	asked    bool // there is a question
	queued   bool
	dirty    bool
	again    bool
}

// add follows a topic. The server learns of the subscription before it is asked for the history.
func (r *reader) add(c change) {
	name := token(c.topic)
	fd := &feed{change: c, reader: r, subject: topics(r.place.stream) + name,
		backlog: r.base.Backlog(c.topic, c.to)}
	r.feeds[c.topic] = fd
	subject := live(r.place.stream) + name
	r.live[subject] = fd
	var err error
	if fd.sub, err = r.conn.ChanSubscribe(subject, r.msgs); err != nil {
		r.base.Log.Error("nats: a topic cannot be followed", "topic", c.topic, "error", err)
		fd.tell(nil)
		return
	}
	if r.up {
		r.behind++
		r.want(fd)
	} else if !r.conn.IsConnected() {
		fd.tell(nil)
	}
}

// drop ends a feed; nil is none.
func (r *reader) drop(fd *feed) {
	if fd == nil {
		return
	}
	fd.gone = true
	delete(r.feeds, fd.topic)
	delete(r.live, live(r.place.stream)+token(fd.topic))
	if fd.asked {
		delete(r.asked, fd.number)
	}
	if fd.sub != nil {
		_ = fd.sub.Unsubscribe() // fails if there is no connection, and then there is nothing to end
	}
	fd.done()
}

// tell gives subscribers the history, once.
func (fd *feed) tell(history []*pubsub.Message) {
	fd.told = true
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
	if fd.doubt {
		where = "$JS.API.STREAM.MSG.GET."
	} else {
		question["batch"], question["max_bytes"] = perPage, maxBytes
	}
	data, err := json.Marshal(question)
	if err != nil {
		panic(err)
	}
	fd.page, fd.asked, fd.deadline = nil, true, time.Now().Add(engine.Patience/2)
	fd.number = fd.question(where+fd.place.stream, data)
	fd.reader.asked[fd.number] = fd
}

// answer takes a part of an answer.
func (fd *feed) answer(n int, m *natsgo.Msg) {
	fd.tries = 0
	switch status := m.Header.Get(headerStatus); status {
	case "": // a message
		if fd.doubt {
			delete(fd.reader.asked, n)
			fd.asked, fd.doubt = false, false
			fd.settle(m)
			return
		}
		fd.page = append(fd.page, m)
		fd.deadline = time.Now().Add(engine.Patience / 2)
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
		fd.want(fd)
		return
	}
	for _, m := range page {
		fd.take(m, number(m, headerSeq), true)
	}
	switch n, _ := fd.backlog.Waiting(); {
	case left > 0:
		if len(fd.ready)+n == 0 {
			fd.want(fd)
		} else {
			fd.top = max(fd.top, fd.last+1) // offer asks on when there is room
		}
	case fd.top > fd.last:
		fd.lacks(len(page) == 0)
		fd.retrySoon()
		return
	case fd.session != fd.reader.session:
		fd.checkLater(fd)
		fd.done()
	}
	fd.markDirty()
}

// lacks notes that a message that was published did not come: the server that has answered is
// behind, or the message was removed. If it does not come soon, the server that leads the stream is
// asked, which knows.
func (fd *feed) lacks(empty bool) {
	switch {
	case !empty:
		fd.empty = time.Time{}
	case fd.empty.IsZero():
		fd.empty = time.Now()
	case time.Since(fd.empty) > often:
		fd.doubt = true
	}
}

// settle takes the leader's answer.
func (fd *feed) settle(m *natsgo.Msg) {
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
	fd.empty = time.Time{}
	switch {
	case err != nil:
		fd.fail(err)
	case answer.Error != nil && answer.Error.ErrorCode == jetstream.JSErrCodeMessageNotFound:
		fd.last = fd.top // it was removed
		fd.want(fd)
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
		fd.want(fd)
	}
}

// done notes that the feed is not behind any more.
func (fd *feed) done() {
	if r := fd.reader; r.up && fd.session != r.session {
		fd.session = r.session
		r.behind--
		r.caughtUp()
	}
}

// news takes a message as it is published.
func (fd *feed) news(m *natsgo.Msg) {
	seq := number(m, headerSeq)
	switch {
	case seq <= fd.last:
	case !fd.read || fd.asked || fd.queued || fd.again || fd.session != fd.reader.session,
		number(m, headerBefore) > fd.last: // it is read from the stream, behind what was missed
		fd.top = max(fd.top, seq)
		if fd.read && !fd.again {
			fd.want(fd)
		}
	default:
		fd.take(m, seq, false)
	}
}

// take takes the next message, in the order of the stream. It is late if it was missed before.
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

// offer gives the subscribers what was read, as far as there is room, and then asks for what came
// meanwhile.
func (fd *feed) offer() {
	if fd.gone || fd.again {
		return
	}
	fd.backlog.Retry()
	fd.backlog.Add(fd.ready, fd.late)
	fd.ready, fd.late = nil, false
	if n, _ := fd.backlog.Waiting(); n > 0 {
		fd.retrySoon()
	} else if fd.read && fd.top > fd.last {
		fd.want(fd)
	}
}

// retrySoon has offer called again in a moment.
func (fd *feed) retrySoon() {
	if !fd.again {
		fd.again = true
		fd.later = append(fd.later, fd)
	}
}
