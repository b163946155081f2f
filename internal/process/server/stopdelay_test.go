package server_test

import (
	"context"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestStopDelay: a server that is told to stop says that it is not ready, and serves all the same,
// for stop_delay or until it is told again. It refuses reloads and upgrades meanwhile. That the
// context has ended counts as a signal, and the signal that has ended it is not a second one.
func TestStopDelay(t *testing.T) {
	for _, mode := range []struct {
		name, delay string
		byContext   bool
		again       int // signals
	}{
		{"over", "20ms", false, 0},
		{"cut short", "1h", false, 1},
		{"context", "1h", true, 2},
	} {
		t.Run(mode.name, func(t *testing.T) {
			m := listenAsManager(t)
			file := filepath.Join(t.TempDir(), "lwango.conf")
			must.Write(t, file, "stop_delay = \""+mode.delay+"\"\n[[site]]\n[[site.route]]\n"+
				"prefix = \"/health\"\nmodule = \"health\"\n")
			o, _ := server.Parse([]string{"-c", file, "-l", "127.0.0.1:0"},
				flag.NewFlagSet("", flag.ContinueOnError), io.Discard, io.Discard)
			p := server.NewProgram(config.Builtin())
			r, log := io.Pipe()
			lines := make(chan string, 100)
			go scan(r, lines)
			done := make(chan int, 1)
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			go func() { done <- p.Main(ctx, o, "", io.Discard, log) }()
			address := logged(t, lines, `msg=listening address=(\S+)`)
			m.told(`READY=1\nSTATUS=serving at ` + address)
			ready := func() int {
				req := must.Get(http.NewRequest("GET", "http://"+address+"/health/ready", nil))(t)
				resp, err := (&http.Transport{}).RoundTrip(req)
				if err != nil {
					return 0
				}
				resp.Body.Close()
				if resp.StatusCode == 503 && !resp.Close {
					t.Error("the connection stays")
				}
				return resp.StatusCode
			}
			if got := ready(); got != 200 {
				t.Errorf("status %d", got)
			}
			if mode.byContext {
				cancel(errors.New("over"))
			} else {
				must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
			}
			m.told(`STOPPING=1\nEXTEND_TIMEOUT_USEC=[0-9]+\nSTATUS=not ready, .*`)
			if mode.again > 0 {
				wait.Until(t, "it is not ready", func() bool { return ready() == 503 })
				must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGUSR2))
				logged(t, lines, `msg="(upgrade refused): the server stops"`)
			}
			for range mode.again {
				if got := ready(); got != 503 {
					t.Errorf("status %d", got)
				}
				must.Do(t, syscall.Kill(os.Getpid(), syscall.SIGTERM))
				logged(t, lines, `msg="?(stopping[a-z_, ]*)`)
			}
			m.told(`STOPPING=1\nEXTEND_TIMEOUT_USEC=6000000\nSTATUS=stopping: .*`)
			if code := <-done; code != 0 {
				t.Errorf("code %d", code)
			}
			log.Close()
		})
	}
}
