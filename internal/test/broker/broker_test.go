package broker

import (
	"os"
	"os/exec"
	"testing"
)

// TestQuiet: what the library has to say while a broker starts is no part of a test's output.
func TestQuiet(t *testing.T) {
	const inner = "LWANGO_QUIET"
	if os.Getenv(inner) != "" {
		b := Start(t)
		b.Kill()
		b.Restart()
		b.Do("PING")
		return
	}
	Start(t) // or it is left out here, and not there
	cmd := exec.Command(os.Args[0], "-test.run=^TestQuiet$")
	cmd.Env = append(os.Environ(), inner+"=1", "GOCOVERDIR="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "PASS\n" {
		t.Errorf("%v: %s", err, out)
	}
}
