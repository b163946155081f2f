package main

import (
	"net/http"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/lesismal/llib/std/crypto/tls"
	"github.com/lesismal/nbio/nbhttp"
	"github.com/lesismal/nbio/nbhttp/websocket"
	"github.com/lwango/lwango/bench/tasks"
)

// An nbioServer is callbacks on epoll loops: a connection has no goroutine. Its handlers, and what
// it answers by HTTP, run in the library's pool of goroutines, as they do by default. The library
// looks whether text is UTF-8.
type nbioServer struct {
	rooms textRooms
	all   sync.Map // of *websocket.Conn, for the pings
}

// An nbioMember is a connection: what it is told goes out at once, or waits in its buffer.
type nbioMember struct{ conn *websocket.Conn }

func (m *nbioMember) hear(text []byte) bool {
	return m.conn.WriteMessage(websocket.TextMessage, text) == nil
}

func (m *nbioMember) told(text *fillText) { m.hear(text.text) }

// serveNbio serves until it is killed.
func serveNbio(addr, files string, secure bool) error {
	s, mux := &nbioServer{}, http.NewServeMux()
	tasks.Start("", "", mux.Handle)
	mux.Handle("/", tasks.Hello)
	config := nbhttp.Config{
		Network: "tcp", Addrs: []string{addr}, Handler: mux, NPoller: runtime.GOMAXPROCS(0),
		MaxLoad: 1 << 20, KeepaliveTime: idleTimeout, ReleaseWebsocketPayload: true,
		IOMod: nbhttp.IOModNonBlocking,
	}
	if secure {
		dir := filepath.Dir(files)
		cert, err := tls.LoadX509KeyPair(filepath.Join(dir, certFile), filepath.Join(dir, keyFile))
		if err != nil {
			return err
		}
		config.Addrs, config.AddrsTLS = nil, config.Addrs
		config.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}}
	}
	engine := nbhttp.NewEngine(config)
	upgrader := func() *websocket.Upgrader {
		u := websocket.NewUpgrader()
		u.Engine, u.MessageLengthLimit, u.KeepaliveTime = engine, tasks.MessageLimit, tasks.DeadAfter
		u.OnClose(func(c *websocket.Conn, _ error) { s.leave(c) })
		return u
	}
	echo, deflated, chat := upgrader(), upgrader(), upgrader()
	deflated.EnableCompression(true)
	for _, u := range []*websocket.Upgrader{echo, deflated} {
		u.OnMessage(func(c *websocket.Conn, kind websocket.MessageType, text []byte) {
			if c.WriteMessage(kind, text) != nil {
				c.Close()
			}
		})
	}
	chat.OnMessage(func(c *websocket.Conn, _ websocket.MessageType, text []byte) {
		for _, slow := range c.Session().(*nbioSeat).room.publish(text) {
			slow.(*nbioMember).conn.Close()
		}
	})
	for path, u := range map[string]*websocket.Upgrader{
		tasks.EchoPath: echo, tasks.DeflatePath: deflated,
	} {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if c, err := u.Upgrade(w, r, nil); err == nil {
				s.all.Store(c, nil)
			}
		})
	}
	mux.HandleFunc(tasks.RoomPath, func(w http.ResponseWriter, r *http.Request) {
		room := s.rooms.room(r.URL.Query().Get("room"))
		c, err := chat.Upgrade(w, r, nil)
		if err != nil {
			return // answered
		}
		seat := &nbioSeat{room, &nbioMember{c}}
		c.SetSession(seat)
		s.all.Store(c, nil)
		room.join(seat.member)
	})
	var filling fillRooms
	mux.HandleFunc(tasks.FillPath, func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		room, name := filling.room(q.Get("room")), q.Get("name")
		u := upgrader()
		m := &nbioMember{}
		u.OnClose(func(c *websocket.Conn, _ error) {
			s.all.Delete(c)
			room.leave(m)
		})
		var err error
		if m.conn, err = u.Upgrade(w, r, nil); err == nil {
			s.all.Store(m.conn, nil)
			room.enter(name, m)
		}
	})
	if err := engine.Start(); err != nil {
		return err
	}
	for range time.Tick(tasks.PingEvery) {
		s.all.Range(func(c, _ any) bool {
			c.(*websocket.Conn).WriteMessage(websocket.PingMessage, nil)
			return true
		})
	}
	return nil
}

// An nbioSeat is where a connection sits.
type nbioSeat struct {
	room   *textRoom
	member *nbioMember
}

func (s *nbioServer) leave(c *websocket.Conn) {
	s.all.Delete(c)
	if seat, ok := c.Session().(*nbioSeat); ok {
		seat.room.leave(seat.member)
	}
}
