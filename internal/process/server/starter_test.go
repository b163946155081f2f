package server_test

import (
	"testing"

	"github.com/lwango/lwango/internal/process/server"
)

// TestStarter: what process 1 has started, and what is an orphan. Pid 50 is the server; sessions
// and groups of 40 are those of a shell.
func TestStarter(t *testing.T) {
	const session3, unit = "0::/user.slice/user-0.slice/session-3.scope\n",
		"0::/system.slice/lwango.service\n"
	for name, test := range map[string]struct {
		session, group int
		cgroup, main   string
		openRC         bool
		orphan         bool
	}{
		"tini":                             {1, 50, "0::/\n", "", false, false},
		"an init that makes no group":      {1, 1, "0::/\n", "", false, false},
		"dumb-init":                        {50, 50, "0::/\n", "", false, false},
		"systemd, Type=simple":             {50, 50, unit, "50", false, false},
		"an older systemd":                 {50, 50, unit, "", false, false},
		"a script of systemd":              {40, 40, unit, "40", false, false},
		"( lwango & ) in a login":          {40, 45, session3, "", false, true},
		"nohup lwango & in a login":        {40, 50, session3, "", false, true},
		"( lwango & ) of a script of tini": {1, 40, "0::/\n", "", false, true},
		"docker exec sh -c '( lwango & )'": {0, 40, "0::/\n", "", false, true},
		"start-stop-daemon of OpenRC":      {50, 50, "0::/openrc.lwango\n", "", true, true},
		"setsid lwango & of anybody":       {50, 50, session3, "", false, false}, // it cannot be told
	} {
		s := server.NewStarter(50, test.session, test.group, test.cgroup, test.main, test.openRC)
		if got := s.Orphan(); got != test.orphan {
			t.Errorf("%s: %t", name, got)
		}
	}
}
