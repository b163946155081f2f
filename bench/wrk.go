package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// wrkDone has wrk report its counters as one line of JSON: its own text rounds them.
const wrkDone = `done = function(summary, latency, requests)
   local e = summary.errors
   io.write(string.format('\nbench {"requests":%d,"microseconds":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}\n',
      summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout))
end
`

// wrkPipeline sends so many requests in one write. wrk counts them in the text that init makes and waits for as many
// answers. Without it request stays wrk's own, and no Lua runs while measuring.
const wrkPipeline = `init = function(args)
   all = string.rep(wrk.format(), %d)
end
request = function() return all end
`

// wrkReport is what one run of wrk counted.
type wrkReport struct {
	Requests     int64
	Microseconds int64
	Bytes        int64
	Connect      int64 // errors from here on
	Read         int64
	Write        int64
	Status       int64 // answers above 399
	Timeout      int64 // answers later than wrk's limit; they are counted in Requests when they come

	client time.Duration // wrk's own CPU time
}

func (r wrkReport) perSecond() float64 {
	if r.Microseconds == 0 {
		return 0
	}
	return float64(r.Requests) / (float64(r.Microseconds) / 1e6)
}

// check refuses a run that did not do the work. Late answers are no reason: 4,000 connections that start at once may
// wait for a slow server.
func (r wrkReport) check() error {
	switch {
	case r.Requests == 0:
		return errors.New("wrk: no request was answered")
	case r.Connect+r.Read+r.Write+r.Status > 0:
		return fmt.Errorf("wrk: errors: %d connect, %d read, %d write, %d status", r.Connect, r.Read, r.Write, r.Status)
	}
	return nil
}

// wrkLimit is wrk's --timeout. The clients' own limit below is far longer: it only ends a client that hangs.
const (
	wrkLimit    = "10s"
	clientGrace = 30 * time.Second
)

func writeWrkScript(dir string, depth int) (string, error) {
	script := wrkDone
	if depth > 1 {
		script += fmt.Sprintf(wrkPipeline, depth)
	}
	file := filepath.Join(dir, fmt.Sprintf("wrk-%d.lua", depth))
	return file, os.WriteFile(file, []byte(script), 0o644)
}

// runWrk loads the server as fast as it answers. The caller checks the report.
func runWrk(ctx context.Context, env *environment, w work, addr string, duration time.Duration) (wrkReport, error) {
	script, err := writeWrkScript(env.dir, w.depth)
	if err != nil {
		return wrkReport{}, err
	}
	// wrk knows whole seconds only. For less it is interrupted, on which it stops and reports as at its end.
	seconds := int((duration + time.Second - 1) / time.Second)
	argv := []string{"pin", strconv.Itoa(env.clientFor(w)), env.wrk, "-t1", "-c" + strconv.Itoa(w.conns),
		"-d" + strconv.Itoa(seconds) + "s", "--timeout", wrkLimit, "-s", script, "http://" + addr + w.path}
	ctx, cancel := context.WithTimeout(ctx, duration+clientGrace)
	defer cancel()
	cmd := exec.CommandContext(ctx, env.self, argv...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	var out, errout bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errout
	if err := cmd.Start(); err != nil {
		return wrkReport{}, err
	}
	if time.Duration(seconds)*time.Second != duration {
		early := time.AfterFunc(duration, func() { cmd.Process.Signal(os.Interrupt) })
		defer early.Stop()
	}
	if err := cmd.Wait(); err != nil {
		if status := cmd.ProcessState.Sys().(syscall.WaitStatus); status.Signaled() && status.Signal() == syscall.SIGINT && ctx.Err() == nil {
			// A busy machine had not brought it so far yet as to catch the interrupt. A whole second needs none.
			return runWrk(ctx, env, w, addr, time.Second)
		}
		return wrkReport{}, fmt.Errorf("wrk: %w: %s", err, strings.TrimSpace(errout.String()))
	}
	report, err := parseWrk(out.Bytes())
	report.client = cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()
	return report, err
}

func parseWrk(out []byte) (wrkReport, error) {
	var report wrkReport
	for line := range bytes.Lines(out) {
		if text, ok := bytes.CutPrefix(line, []byte("bench ")); ok {
			return report, json.Unmarshal(text, &report)
		}
	}
	return report, fmt.Errorf("wrk: no counters in %.300q", out)
}
