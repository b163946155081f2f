package main

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/pubsub"
)

// every is how often the progress of an upload is told at most.
const every = 100 * time.Millisecond

// progress is how far an upload is. Each state of it is a message of the upload's topic.
type progress struct {
	Received int64  `json:"received"` // bytes of files
	Total    int64  `json:"total"`    // bytes of the form, a little more; -1: unknown
	End      string `json:"end,omitempty"`
	Error    string `json:"error,omitempty"`

	topic *pubsub.Topic
	told  time.Time
}

func topicOf(id string) *pubsub.Topic { return lwango.Topics().Topic("upload " + id) }

func begin(id string, total int64) *progress {
	p := &progress{Total: total, topic: topicOf(id)}
	p.tell()
	return p
}

func (p *progress) tell() {
	p.told = time.Now()
	text, _ := json.Marshal(p) // which has nothing in it that could fail
	p.topic.Publish(text)      // never waits, whoever listens
}

func (p *progress) add(n int) {
	p.Received += int64(n)
	if time.Since(p.told) >= every {
		p.tell()
	}
}

// end tells how the upload has ended, once.
func (p *progress) end(how, why string) {
	if p.End == "" {
		p.End, p.Error = how, why
		p.tell()
	}
}

// follow tells a page of the progress of an upload, until that has ended. The page may ask before
// the upload begins.
func follow(req *lwango.Request, resp *lwango.Response) int {
	id := req.PathValue("id")
	if !validID(id) {
		return resp.Error(400, errBadID)
	}
	// Only the newest state counts, also for a page that is slow to read.
	states := topicOf(id).Subscribe(req.Thread, pubsub.Options{Queue: 1, History: 1})
	stream, err := sse.Open(req, resp)
	if err != nil {
		return 200 // a HEAD, or the client has left
	}
	for {
		if _, err := stream.AwaitAny(-1, states); err != nil {
			return 200 // the client has left, or the server stops
		}
		for m := states.Next(); m != nil; m = states.Next() {
			var p progress
			if err := stream.Send(sse.Event{Data: m.Data}); err != nil {
				return 200
			}
			if json.Unmarshal(m.Data, &p) == nil && p.End != "" {
				return 200
			}
		}
	}
}

// validID tells an id that a page has made up from what would fill the memory of topics.
func validID(id string) bool {
	return len(id) >= 8 && len(id) <= 64 && !strings.ContainsFunc(id, func(c rune) bool {
		return c != '-' && (c < '0' || c > '9') && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z')
	})
}
