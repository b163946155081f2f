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
	"syscall"
	"time"
)

// wrkScript prints wrk's counters as one line of JSON: its own text rounds them.
const wrkScript = `done = function(summary, latency, requests)
   local e = summary.errors
   io.write(string.format('\nbench {"requests":%d,"microseconds":%d,"connect":%d,"read":%d,"write":%d,"status":%d}\n',
      summary.requests, summary.duration, e.connect, e.read, e.write, e.status))
end
`

// wrkPipeline sends so many requests in one write. wrk counts them in the text that init makes and
// waits for as many answers. Without it request stays wrk's own, and no Lua runs while measuring.
const wrkPipeline = `init = function(args)
   all = string.rep(wrk.format(), %d)
end
request = function() return all end
`

// A wrkReport is what one run of wrk counted. Late answers are no error: 4,000 connections that start
// at once may wait for a slow server.
type wrkReport struct {
	Requests, Microseconds       int64
	Connect, Read, Write, Status int64    // errors; Status: answers above 399
	used                         cpuUsage // wrk's own
}

// check refuses a run that did not do the work.
func (r wrkReport) check() error {
	switch {
	case r.Requests == 0:
		return errors.New("wrk: no request was answered")
	case r.Connect+r.Read+r.Write+r.Status > 0:
		return fmt.Errorf("wrk: errors: %d connect, %d read, %d write, %d status", r.Connect, r.Read, r.Write, r.Status)
	}
	return nil
}

// runWrk loads the server as fast as it answers. The caller checks the report.
func runWrk(ctx context.Context, env *environment, w work, addr string, duration time.Duration) (r wrkReport, err error) {
	script, file := wrkScript, filepath.Join(env.dir, fmt.Sprintf("wrk-%d.lua", w.Depth))
	if w.Depth > 1 {
		script += fmt.Sprintf(wrkPipeline, w.Depth)
	}
	if err := os.WriteFile(file, []byte(script), 0o644); err != nil {
		return r, err
	}
	ctx, cancel := context.WithTimeout(ctx, duration+time.Minute) // which only ends one that hangs
	defer cancel()
	// wrk knows whole seconds only. For less it is interrupted, on which it reports as at its end.
	whole := duration.Truncate(time.Second)
	interrupt := duration
	if whole == duration {
		interrupt = 0
	}
	out, used, err := run(ctx, env.clientFor(w), interrupt, env.programs["wrk"], "-t1", "-c"+strconv.Itoa(w.Conns),
		"-d"+strconv.Itoa(int((duration+time.Second-1)/time.Second))+"s", "--timeout", "10s", "-s", file, "http://"+addr+w.Path)
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Sys().(syscall.WaitStatus).Signal() == syscall.SIGINT && ctx.Err() == nil {
		// A busy machine had not brought it far enough to catch the interrupt. A whole second needs none.
		return runWrk(ctx, env, w, addr, time.Second)
	}
	if err != nil {
		return r, fmt.Errorf("wrk: %w", err)
	}
	r, err = parseWrk(out)
	r.used = used
	return r, err
}

func parseWrk(out []byte) (r wrkReport, err error) {
	for line := range bytes.Lines(out) {
		if text, ok := bytes.CutPrefix(line, []byte("bench ")); ok {
			return r, json.Unmarshal(text, &r)
		}
	}
	return r, fmt.Errorf("wrk: no counters in %.300q", out)
}
