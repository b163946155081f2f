package middleware

import (
	"bufio"
	"net/http"
	"strings"
	"testing"

	"github.com/alexedwards/scs/v2"
	"github.com/alexedwards/scs/v2/memstore"
	chi "github.com/go-chi/chi/v5/middleware"
	"github.com/gorilla/websocket"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/handlers/sse"
	lwebsocket "github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/lwangotest"
)

// echo sends messages back, and tells when it ends.
type echo struct{ closed chan bool }

func (echo) Open(c *lwebsocket.Conn) { _ = c.WriteMessage(lwebsocket.Text, []byte("open")) }
func (echo) Message(c *lwebsocket.Conn, kind int, p []byte) {
	_ = c.WriteMessage(kind, p)
}
func (e echo) Closed(*lwebsocket.Conn, *lwebsocket.CloseError) { e.closed <- true }

// ticks sends an event, and tells when its stream ends.
type ticks struct{ closed chan bool }

func (ticks) Open(s *sse.Stream)          { _ = s.Send(sse.Event{Data: []byte("tick")}) }
func (t ticks) Closed(*sse.Stream, error) { t.closed <- true }

// TestStreams: a WebSocket and an event stream live on behind middleware that wraps the writer, and
// behind some that does not.
func TestStreams(t *testing.T) {
	bothForms(t, func(t *testing.T, form func(func(http.Handler) http.Handler) lwango.Middleware) {
		sessions := &scs.SessionManager{Store: memstore.NewWithCleanupInterval(0),
			Codec: scs.GobCodec{}, Cookie: scs.SessionCookie{Name: "session", Path: "/"}}
		logger := chi.RequestLogger(&chi.DefaultLogFormatter{Logger: discard{}, NoColor: true})
		for name, m := range map[string]func(http.Handler) http.Handler{
			"chi.RequestID": chi.RequestID, "chi.RequestLogger": logger, "scs": sessions.LoadAndSave,
		} {
			t.Run(name, func(t *testing.T) {
				closed := make(chan bool, 3)
				var upgrader lwebsocket.Upgrader
				mux := lwango.NewMux()
				mux.Use(form(m))
				mux.Handle("GET /serve", func(req *lwango.Request, resp *lwango.Response) int {
					return upgrader.Serve(req, resp, echo{closed})
				})
				mux.Handle("GET /upgrade", func(req *lwango.Request, resp *lwango.Response) int {
					defer func() { closed <- true }()
					c, err := upgrader.Upgrade(req, resp)
					if err != nil {
						return lwebsocket.Status(err)
					}
					_ = c.WriteMessage(lwebsocket.Text, []byte("open"))
					for {
						kind, p, err := c.ReadMessage()
						if err != nil || c.WriteMessage(kind, p) != nil {
							return 0
						}
					}
				})
				mux.Handle("GET /events", func(req *lwango.Request, resp *lwango.Response) int {
					return sse.Serve(req, resp, ticks{closed})
				})
				s := lwangotest.Start(t, mux.Serve)
				for _, path := range []string{"/serve", "/upgrade"} {
					c, _, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(s.URL, "http")+path, nil)
					if err != nil {
						t.Errorf("%s: %v", path, err)
						continue
					}
					for _, text := range []string{"open", "a", "b"} {
						if text != "open" {
							if err := c.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
								t.Error(err)
							}
						}
						if _, p, err := c.ReadMessage(); string(p) != text || err != nil {
							t.Errorf("%s: %q, %v, want %q", path, p, err, text)
						}
					}
					c.Close()
					<-closed
				}
				a, err := s.Client().Get(s.URL + "/events")
				if err != nil {
					t.Fatal(err)
				}
				if line, err := bufio.NewReader(a.Body).ReadString('\n'); line != "data: tick\n" {
					t.Errorf("/events: %s, %q, %v", a.Status, line, err)
				}
				a.Body.Close()
				<-closed
			})
		}
	})
}
