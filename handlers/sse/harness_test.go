package sse_test

import (
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/sse"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/pubsub"
)

// talk is what a program does with a stream, in either style. Without a room, open has all of it,
// and the stream ends with it.
type talk struct {
	open func(s *sse.Stream)
	room *pubsub.Topic                                // is followed
	said func(s *sse.Stream, m *pubsub.Message) error // is called for what is published there
	ends chan<- error                                 // gets what the stream has ended with
}

// begin starts a server of streams that requests choose, in one style.
type begin func(limits conn.Limits,
	of func(req *conn.Request, resp *conn.Response) talk) *server.Server

// both gives each mode the same test, in both styles of what talk describes: with the handler's own
// loop, and under Serve.
func both(t *testing.T, f func(t *testing.T, start begin), in ...modes.Mode) {
	for style, serve := range map[string]func(talk, *conn.Request, *conn.Response) int{
		"Open": talk.have, "Serve": talk.serve} {
		t.Run(style, func(t *testing.T) {
			modes.Run(t, func(t *testing.T, m modes.Mode) {
				f(t,
					func(limits conn.Limits, of func(req *conn.Request, resp *conn.Response) talk) *server.Server {
						return server.Start(t, m, conn.Config{Limits: limits,
							Handler: func(req *conn.Request, resp *conn.Response) int {
								return serve(of(req, resp), req, resp)
							}})
					})
			}, in...)
		})
	}
}

// have is the handler's own loop.
func (k talk) have(req *conn.Request, resp *conn.Response) int {
	s, err := sse.Open(req, resp)
	if err != nil {
		return 200
	}
	var sub *pubsub.Subscription
	if k.room != nil {
		sub = k.room.Subscribe(req.Thread, pubsub.Options{})
	}
	if k.open != nil {
		k.open(s)
	}
	for err == nil && sub != nil {
		if _, err = s.AwaitAny(-1, sub); err == nil {
			if m := sub.Next(); m != nil {
				err = k.said(s, m)
			}
		}
	}
	if k.ends != nil {
		k.ends <- err
	}
	return 200
}

func (k talk) serve(req *conn.Request, resp *conn.Response) int {
	return sse.Serve(req, resp, servedTalk(k))
}

// servedTalk is a talk under Serve.
type servedTalk talk

func (k servedTalk) Open(s *sse.Stream) {
	if k.room != nil {
		s.Subscribe(k.room, pubsub.Options{}, func(s *sse.Stream, m *pubsub.Message) {
			if m != nil && k.said(s, m) != nil {
				s.Close()
			}
		})
	}
	if k.open != nil {
		k.open(s)
	}
	if k.room == nil {
		s.Close()
	}
}

func (k servedTalk) Closed(_ *sse.Stream, err error) {
	if k.ends != nil {
		k.ends <- err
	}
}
