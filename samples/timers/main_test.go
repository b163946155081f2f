package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/program"
)

func TestMain(m *testing.M) { program.Main(m, main) }

func TestTimers(t *testing.T) {
	cmd := program.Command(t)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v\n%s", err, stderr.String())
	}
	// On a busy machine the start of a process may take its time. That the two sleep beside each
	// other shows in the order of the lines.
	if took := time.Since(began); took < 4*time.Second {
		t.Errorf("took %v, want 4 s at least", took)
	}
	want := `work sleeps 1s
work2 sleeps 1s
work sleeps 3s
work2 sleeps 2s
work2 is done
work is done
`
	if got := stdout.String(); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if stderr.Len() > 0 {
		t.Errorf("stderr: %s", stderr.String())
	}
}
