package servefiles_test

import (
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// A loop may kill its threads before the shelf's thread has run at all. The shelf's files are closed
// all the same.
func TestKeptAndKilledBeforeItsThreadRan(t *testing.T) {
	root := tree(t)
	files, err := servefiles.NewSender(servefiles.Settings{Path: root, OpenFiles: 8}, handlers.Env{})
	check(t, err)
	kept := make(chan int, 1)
	s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
		l := req.Thread.Loop()
		if _, ok := req.HeaderView("Stop"); ok {
			for range 16 { // they take all that threads may have of the next turn
				l.Go(func(*loop.Thread) {
					for began := time.Now(); time.Since(began) < time.Millisecond; {
					}
				})
			}
			defer func() {
				kept <- held(t, root, "big.bin")
				l.Stop(0)
			}()
		}
		status, _ := files.Send(req, resp, "big.bin", 200)
		return status
	})
	c := s.Dial()
	c.Do("HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.Send("HEAD / HTTP/1.1\r\nHost: a\r\nStop: yes\r\n\r\n")
	if n := <-kept; n != 1 {
		t.Errorf("%d open, so this is not about a file that is kept", n)
	}
	wait.Until(t, "the file is closed", func() bool { return held(t, root, "big.bin") == 0 })
}
