package main

import (
	"cmp"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/pubsub"
)

// follow sends what is said in a room as events. A client that comes back after an interruption
// goes on where it was.
func follow(req *lwango.Request, resp *lwango.Response) int {
	room, err := checkName("room", cmp.Or(req.Query().Get("room"), lobby))
	if err != nil {
		resp.WriteString(err.Error() + "\n")
		return 400
	}
	goAway, err := admit(req, "")
	if err != nil {
		return later(resp, err)
	}
	defer goAway()
	stream, err := sse.Open(req, resp)
	if err != nil {
		return 200
	}
	messages := said(room).Subscribe(req.Thread, pubsub.Options{
		After: stream.LastEventID(), History: pageful, Queue: messageQueue,
		Policy: pubsub.Disconnect,
	})
	for err == nil {
		if _, err = stream.AwaitAny(-1, messages); err != nil {
			break
		}
		if m := next(messages); m != nil {
			err = stream.Send(sse.Event{ID: m.ID, Data: m.Data})
		} else {
			err = messages.Err() // too slow: the browser comes back, and goes on where it was
		}
	}
	return 200
}
