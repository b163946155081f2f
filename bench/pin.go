package main

import (
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"
)

// unpinned lets a process run on any CPU.
const unpinned = -1

// pinCommand is `bench pin CPU COMMAND...`: it becomes the command, held to that CPU. Doing it here and not with
// taskset spares a dependency, and an affinity set before exec holds for every thread and child of the command.
func pinCommand(args []string) error {
	if len(args) < 2 {
		return fmt.Errorf("usage: bench pin CPU COMMAND...")
	}
	cpu, err := strconv.Atoi(args[0])
	if err != nil {
		return err
	}
	path, err := exec.LookPath(args[1])
	if err != nil {
		return err
	}
	runtime.LockOSThread() // the affinity is this thread's, and exec keeps the calling thread's
	if cpu != unpinned {
		var set unix.CPUSet
		set.Set(cpu)
		if err := unix.SchedSetaffinity(0, &set); err != nil {
			return fmt.Errorf("CPU %d: %w", cpu, err)
		}
	}
	// Not every server raises its soft limit as Go programs do.
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err == nil {
		limit.Cur = limit.Max
		if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
			return err
		}
	}
	return syscall.Exec(path, args[1:], os.Environ())
}

// allowedCPUs lists the CPUs that this process may use.
func allowedCPUs() []int {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return []int{0}
	}
	var cpus []int
	for cpu := range 1024 {
		if set.IsSet(cpu) {
			cpus = append(cpus, cpu)
		}
	}
	return cpus
}

// defaultCPUs are the first two allowed ones; on a machine with one CPU, that one twice.
func defaultCPUs() (server, client int) {
	cpus := allowedCPUs()
	if len(cpus) == 1 {
		return cpus[0], cpus[0]
	}
	return cpus[0], cpus[1]
}
