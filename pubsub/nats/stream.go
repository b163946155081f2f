package nats

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

const (
	maxPerTopic = 1 << 13        // messages: what a process can catch up with
	maxAge      = 24 * time.Hour // of a message that has no Keep
)

// Config is what the stream of that name is created with. One that is there already needs the same
// subject, republication, AllowAtomicPublish, AllowMsgTTL and AllowDirect; limits, storage and
// replicas are the operator's choice.
func Config(name string, replicas int) jetstream.StreamConfig {
	return jetstream.StreamConfig{
		Name:               name,
		Description:        "topics of lwango",
		Subjects:           []string{topics(name) + ">"},
		MaxMsgsPerSubject:  maxPerTopic,
		MaxAge:             maxAge,
		Replicas:           replicas,
		AllowDirect:        true,
		AllowAtomicPublish: true,
		AllowMsgTTL:        true,
		RePublish: &jetstream.RePublish{Source: topics(name) + ">",
			Destination: live(name) + ">"},
	}
}

func topics(stream string) string { return stream + ".topic." }
func live(stream string) string   { return stream + ".live." }

// verify returns what is wrong with a stream.
func verify(name string, has *jetstream.StreamConfig) error {
	want := Config(name, 0)
	switch {
	case len(has.Subjects) != 1 || has.Subjects[0] != want.Subjects[0]:
		return fmt.Errorf("the stream %s is not of the subject %s", name, want.Subjects[0])
	case has.RePublish == nil || *has.RePublish != *want.RePublish:
		return fmt.Errorf("the stream %s does not publish %s again as %s",
			name, want.RePublish.Source, want.RePublish.Destination)
	case !has.AllowDirect || !has.AllowAtomicPublish || !has.AllowMsgTTL:
		return fmt.Errorf("the stream %s lacks allow_direct, allow_atomic or allow_msg_ttl, "+
			"of nats-server 2.12", name)
	}
	return nil
}

// create creates the stream. Another process may do so at the same time.
func (e *Engine) create() error {
	conn := e.conn.Load()
	js, err := jetstream.New(conn)
	if err != nil {
		return err
	}
	ctx, cancel := e.base.Within(engine.AnswerTimeout)
	defer cancel()
	_, err = js.CreateStream(ctx, Config(e.target.stream, e.target.replicas))
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		return nil // with settings that verify will see
	}
	return err
}
