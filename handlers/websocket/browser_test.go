package websocket_test

import (
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/browser"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestBrowserHTTP2: a browser opens a WebSocket on the connection of HTTP/2 that it has.
func TestBrowserHTTP2(t *testing.T) {
	ctx, cancel := chromedp.NewContext(browser.Context(t), chromedp.WithNewBrowserContext())
	defer cancel()
	h, protocols := echo(new(websocket.Upgrader)), make(chan string, 10)
	s := start(t, modes.HTTP2TLS, func(req *conn.Request, w *conn.Response) int {
		if req.Path() == "/ws" {
			protocols <- req.Proto()
			return h(req, w)
		}
		w.Header().Set("Content-Type", "text/html")
		w.WriteString(`<p id=p></p><script>
			const s = new WebSocket("wss://" + location.host + "/ws");
			s.onopen = () => s.send("hello");
			s.onmessage = (e) => { p.textContent = e.data; s.close(1000) };
			s.onclose = (e) => { p.id = "closed" };
		</script>`)
		return 200
	})
	must.Do(t, chromedp.Do(ctx, chromedp.Navigate("https://"+s.Addr+"/")))
	if got, err := chromedp.Run(ctx, chromedp.Text("#closed")); err != nil || got != "hello" {
		t.Errorf("%q, %v", got, err)
	}
	if p := <-protocols; p != "HTTP/2.0" {
		t.Error(p)
	}
}
