package nats

import (
	"encoding/json"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// stateAnswered takes the state of the stream, and begins a session if there is none.
func (r *reader) stateAnswered(m *natsgo.Msg) {
	var info struct {
		jetstream.StreamInfo
		Error *jetstream.APIError `json:"error"`
	}
	if m.Header.Get(headerStatus) == "503" {
		r.fail(errNowhere)
		return
	}
	err := json.Unmarshal(m.Data, &info)
	switch {
	case err == nil && info.Error != nil && info.Error.ErrorCode == jetstream.JSErrCodeStreamNotFound:
		if err = r.create(); err == nil {
			r.askState(time.Now())
			return
		}
	case err == nil && info.Error != nil:
		err = info.Error
	case err == nil:
		err = verify(r.target.stream, &info.Config)
	}
	if err != nil {
		r.fail(err)
		return
	}
	r.costly.Store(info.Config.Replicas <= 1 && info.Config.Storage == jetstream.FileStorage)
	r.clockAhead = time.Until(info.TimeStamp)
	switch {
	case !info.Created.Equal(r.created):
		// Numbers begin anew.
		if !r.created.IsZero() {
			r.selections.restart()
		}
		r.created, r.last, r.foreign = info.Created, 0, foreign(info.Created)
		for _, fd := range r.feeds {
			fd.last, fd.highest, fd.history = 0, 0, 0
		}
		r.up = false
	case info.State.LastSeq < r.known: // what was known later may have come later
		// The stream has lost messages. Or the server is behind: then it is read again in vain.
		for _, fd := range r.feeds {
			fd.last, fd.highest = min(fd.last, fd.history), 0
		}
		r.last, r.up = info.State.LastSeq, false
		r.selections.restart()
	}
	r.last = max(r.last, info.State.LastSeq)
	if !r.up {
		r.begin()
	}
}

// begin begins a session: each topic is asked for what was missed.
func (r *reader) begin() {
	r.session++
	r.decide()
	r.up, r.queue, r.checks = true, nil, nil
	clear(r.asked)
	r.behind = len(r.feeds)
	for _, fd := range r.feeds {
		fd.asked, fd.queued = false, false
		r.enqueue(fd)
	}
	r.caughtUp()
}

// decide lets the first batch be published, or refused.
func (r *reader) decide() {
	select {
	case <-r.decided:
	default:
		close(r.decided)
	}
}

// caughtUp says so when all topics are.
func (r *reader) caughtUp() {
	if r.up && r.behind == 0 {
		r.wait.Reset()
		r.down = false
		r.base.Report(r, nil)
	}
}
