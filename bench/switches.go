package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// readSwitches sums the voluntary context switches of all threads of some processes. Each is a thread that had run and
// went to sleep, so between two readings of sleeping processes it is as many as they have been woken up. A thread that
// ends takes its number along.
func readSwitches(pids []int) (sum int64, err error) {
	for _, pid := range pids {
		folder := filepath.Join(procRoot, strconv.Itoa(pid), "task")
		tasks, err := os.ReadDir(folder)
		if err != nil {
			return 0, err
		}
		for _, task := range tasks {
			text, err := os.ReadFile(filepath.Join(folder, task.Name(), "status"))
			if errors.Is(err, fs.ErrNotExist) {
				continue // it has just ended
			}
			if err != nil {
				return 0, err
			}
			n, err := parseSwitches(text)
			if err != nil {
				return 0, err
			}
			sum += n
		}
	}
	return sum, nil
}

// parseSwitches reads /proc/PID/task/TID/status (proc_pid_status(5)). The other switches are no wake-ups: somebody else
// wanted the CPU.
func parseSwitches(text []byte) (int64, error) {
	for line := range bytes.Lines(text) {
		if key, value, ok := bytes.Cut(line, []byte(":")); ok && string(key) == "voluntary_ctxt_switches" {
			return strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		}
	}
	return 0, fmt.Errorf("no context switches in %.200q", text)
}
