package main

import (
	"flag"
	"os"
	"testing"

	"github.com/lwango/lwango/internal/test/program"
	"github.com/lwango/lwango/internal/test/wait"
)

// atATime is how many of the parallel tests run at a time. Most use a browser and wait for the
// page's timers, not for the processor. The test that measures the page's time is not parallel: it
// runs before them, alone.
const atATime = "8"

func TestMain(m *testing.M) {
	_ = flag.Set("test.parallel", atATime)
	program.Main(m, func() {
		if port := os.Getenv(natsPort); port != "" {
			serveNATS(port)
			return
		}
		main()
	})
}

const patience = wait.Patience

// A configuration in the folder where the program is started counts only if -c names it.
func TestWithoutConfiguration(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-t"}, "built-in defaults: ok\n"},
		{[]string{"-t", "-c", "lwango.conf"}, "lwango.conf: ok\n"},
	} {
		cmd := program.Command(t, c.args...)
		program.Configure(t, cmd.Dir, "grace = \"1s\"\n")
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, out, err, c.want)
		}
	}
}
