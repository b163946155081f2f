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

// headerRoom is more than the header of a message takes beside its data.
const headerRoom = 512

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
	most := int(conn.MaxPayload()) - headerRoom
	msgs := make([]*natsgo.Msg, 0, len(batch))
	for _, it := range batch {
		if len(it.Data) > most {
			e.refuse(it.Topic, errors.New("larger than the server's max_payload"))
			lost++
			continue
		}
		msgs = append(msgs, encode(topics(e.place.stream), it.Topic, it.Message))
	}
	if n := len(msgs); n > 1 && (!e.costly.Load() || time.Duration(n)*e.took > batchCost) {
		id := nuid.Next()
		for i, m := range msgs {
			m.Header[headerBatch] = []string{id}
			m.Header[headerPlace] = []string{strconv.Itoa(i + 1)}
		}
		msgs[len(msgs)-1].Header[headerCommit] = []string{"1"}
		err := e.publish(conn, msgs)
		if refused := (*jetstream.APIError)(nil); !errors.As(err, &refused) ||
			refused.Code != http.StatusBadRequest {
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
		refused := (*jetstream.APIError)(nil)
		switch {
		case err == nil:
		case errors.As(err, &refused) && refused.Code == http.StatusBadRequest:
			e.refuse(m.Subject, err)
			lost++
		default:
			return 0, err
		}
	}
	return lost, nil
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
