package server_test

import (
	"encoding/json"
	"net/http"
	"testing"
	"time"

	gorilla "github.com/gorilla/websocket"

	"github.com/lwango/lwango/internal/base/metrics"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestDrainReports: the process that serves tells of those that it has replaced, as long as they
// have connections.
func TestDrainReports(t *testing.T) {
	t.Parallel()
	u := startUpgraded(t, "drain = \"1h\"\n"+route("prefix = \"/status\"\nmodule = \"status\"\n"))
	client := http.Client{Timeout: wait.Patience, Transport: &http.Transport{DisableKeepAlives: true}}
	pids := func() (all []int) {
		t.Helper()
		resp := must.Get(client.Get("http://" + u.addresses["tcp"] + "/status/json"))(t)
		defer resp.Body.Close()
		var s metrics.Snapshot
		must.Do(t, json.NewDecoder(resp.Body).Decode(&s))
		for _, d := range s.Draining {
			if d.Connections < 1 || d.Until.Sub(d.Since) != time.Hour {
				t.Errorf("%+v", d)
			}
			all = append(all, d.PID)
		}
		return all
	}
	var draining []int
	var sockets []*gorilla.Conn
	for range 2 {
		socket, _, err := gorilla.DefaultDialer.Dial("ws://"+u.addresses["tcp"]+"/socket", nil)
		if err != nil {
			t.Fatal(err)
		}
		defer socket.Close()
		sockets = append(sockets, socket)
		if len(pids()) != len(draining) {
			wait.Until(t, "the process before is shown", func() bool { return len(pids()) == len(draining) })
		}
		draining = append(draining, u.mustPID())
		if out, code := u.command(); code != 0 {
			t.Fatal(out, code)
		}
	}
	wait.Until(t, "both are shown", func() bool {
		all := pids()
		return len(all) == 2 && all[0] == draining[0] && all[1] == draining[1]
	})
	sockets[0].Close()
	wait.Until(t, "the first one has ended", func() bool {
		all := pids()
		return len(all) == 1 && all[0] == draining[1]
	})
	sockets[1].Close()
	wait.Until(t, "none drains", func() bool { return len(pids()) == 0 })
}
