package nats

import (
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	natsgo "github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/nats-io/nuid"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// Header fields of a message that is published with others, all or none.
const (
	headerBatch  = "Nats-Batch-Id"
	headerPlace  = "Nats-Batch-Sequence"
	headerCommit = "Nats-Batch-Commit"
)

const (
	// maxBatch is how many messages are published at once. A server takes 1000 as one batch.
	maxBatch = 1000

	// batchCost is about what a batch takes that the server collects in a file of its own, which it
	// syncs, as it does for a stream that is on one server.
	batchCost = 20 * time.Millisecond
)

// batchRoom is more than those fields take.
const batchRoom = 256

var errTooLarge = errors.New("larger than the server's max_payload")

// send publishes a batch: all of it or nothing, or one message after another, each once the one
// before is acknowledged, if that is quicker. So what is sent again after an error arrives in the
// right order, if perhaps twice.
func (e *Engine) send(batch []engine.Item) (lost int, err error) {
	if len(batch) == 0 {
		return 0, nil
	}
	select {
	case <-e.reader.decided:
	case <-e.base.Context.Done():
	}
	conn := e.conn.Load()
	if conn == nil || !conn.IsConnected() {
		return 0, natsgo.ErrDisconnected
	}
	most := int(conn.MaxPayload()) - batchRoom
	msgs := make([]*natsgo.Msg, 0, len(batch))
	for _, it := range batch {
		m := encode(topics(e.target.stream), it.Topic, it.Message)
		if m.Size()-len(m.Subject) > most { // the header counts, too
			e.refuse(m.Subject, errTooLarge)
			lost++
			continue
		}
		msgs = append(msgs, m)
	}
	if n := len(msgs); n > 1 && (!e.costly.Load() || time.Duration(n)*e.took > batchCost) {
		id := nuid.Next()
		for i, m := range msgs {
			m.Header[headerBatch] = []string{id}
			m.Header[headerPlace] = []string{strconv.Itoa(i + 1)}
		}
		msgs[len(msgs)-1].Header[headerCommit] = []string{"1"}
		err := e.publish(conn, msgs)
		if !refused(err) {
			return lost, err
		}
		// The server refuses one of them, and does not say which. It takes the others one by one.
		for _, m := range msgs {
			delete(m.Header, headerBatch)
			delete(m.Header, headerPlace)
			delete(m.Header, headerCommit)
		}
	}
	for _, m := range msgs {
		start := time.Now()
		err := e.publish(conn, []*natsgo.Msg{m})
		e.took = time.Since(start)
		switch {
		case err == nil:
		case refused(err):
			e.refuse(m.Subject, err)
			lost++
		default:
			return 0, err
		}
	}
	return lost, nil
}

// refused reports whether a message will not be taken, however often it is sent. After a change of
// servers it may be too large.
func refused(err error) bool {
	var api *jetstream.APIError
	return errors.Is(err, natsgo.ErrMaxPayload) ||
		errors.As(err, &api) && api.Code == http.StatusBadRequest
}

func (e *Engine) refuse(topic string, err error) {
	e.base.Log.Error("nats: the broker refuses a message", "topic", topic, "error", err)
}

// publish publishes messages, and waits for the acknowledgement of the last one.
func (e *Engine) publish(conn *natsgo.Conn, msgs []*natsgo.Msg) error {
	last := len(msgs) - 1
	for _, m := range msgs[:last] {
		if err := conn.PublishMsg(m); err != nil {
			return err
		}
	}
	ctx, cancel := e.base.Within(0)
	defer cancel()
	answer, err := conn.RequestMsgWithContext(ctx, msgs[last])
	if err != nil {
		return err
	}
	var ack struct {
		Error *jetstream.APIError `json:"error"`
		Seq   uint64              `json:"seq"`
	}
	switch err := json.Unmarshal(answer.Data, &ack); {
	case err != nil:
		return err
	case ack.Error != nil:
		return ack.Error
	case ack.Seq == 0:
		return errors.New("the answer is no acknowledgement")
	}
	return nil
}
