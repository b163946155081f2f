package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runClient runs one of this binary's own clients on the client's CPU. options go to it as one argument of JSON, and
// what it prints is read into report. limit only ends a client that hangs.
func runClient(ctx context.Context, env *environment, w work, name string, options, report any, limit time.Duration) error {
	argument, err := json.Marshal(options)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, limit+clientGrace)
	defer cancel()
	cmd := exec.CommandContext(ctx, env.self, "pin", strconv.Itoa(env.clientFor(w)), env.self, name, string(argument))
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var errout bytes.Buffer
	cmd.Stderr = &errout
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("%s client: %w: %s", name, err, strings.TrimSpace(errout.String()))
	}
	return json.Unmarshal(out, report)
}

// clientCommand is the other side of runClient. One thread does everything and no garbage is collected, so neither Go's
// scheduler nor its collector adds to what is measured.
func clientCommand[O, R any](name string, load func(O) (R, error)) func(args []string) error {
	return func(args []string) error {
		if len(args) != 1 {
			return fmt.Errorf("usage: bench %s OPTIONS", name)
		}
		var options O
		if err := json.Unmarshal([]byte(args[0]), &options); err != nil {
			return err
		}
		runtime.GOMAXPROCS(1)
		runtime.LockOSThread()
		debug.SetGCPercent(-1)
		report, err := load(options)
		if err != nil {
			return err
		}
		return json.NewEncoder(os.Stdout).Encode(report)
	}
}
