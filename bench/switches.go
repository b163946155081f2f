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

// readSwitches sums the context switches of all threads of some processes. Each is a thread that had run and stopped,
// so between two readings there are at least as many as wake-ups. A thread that ends takes its number along.
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

// parseSwitches reads /proc/PID/task/TID/status (proc_pid_status(5)): voluntary switches, where the thread went to
// sleep, and the others, where it was sent away.
func parseSwitches(text []byte) (sum int64, err error) {
	found := 0
	for line := range bytes.Lines(text) {
		key, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.HasSuffix(key, []byte("voluntary_ctxt_switches")) {
			continue
		}
		n, err := strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		if err != nil {
			return 0, err
		}
		sum += n
		found++
	}
	if found != 2 {
		return 0, fmt.Errorf("%d counts of context switches in %.200q", found, text)
	}
	return sum, nil
}
