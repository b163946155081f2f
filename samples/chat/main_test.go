package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/sampletest"
)

func TestMain(m *testing.M) { sampletest.Main(m, main) }

// patience is how long a test waits for what must come. It is not spent when things go well.
const patience = 20 * time.Second

// The page is the same wherever the program is started, unless somebody has said otherwise.
func TestWithoutConfiguration(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-t"}, "built-in defaults: ok\n"},
		{[]string{"-t", "-c", "lwango.conf"}, "lwango.conf: ok\n"},
	} {
		cmd := sampletest.Command(t, c.args...)
		if err := os.WriteFile(filepath.Join(cmd.Dir, "lwango.conf"), []byte("grace = \"1s\"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != c.want {
			t.Errorf("%q: %q, %v, want %q", c.args, out, err, c.want)
		}
	}
}
