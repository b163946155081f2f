// Ring serves the files of a folder by HTTP/1.1. What it waits for is submitted to a ring,
// io_uring, and completes.
//
//	main.go        flags, signals
//	task.go        Task: work that has not begun, and how tasks are put together
//	scope.go       Scope: tasks that end before it does
//	context.go     Context: what runs tasks, turn by turn of the ring
//	operations.go  Accept, Read, WriteAll, Open, ReadAt, Sleep
//	memory.go      blocks that the kernel reads and writes
//	server.go      accepting, bounds, the stop
//	connection.go  requests and answers of a connection
//	file.go        what is sent of which file
package main

import (
	"context"
	"flag"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/lwango/lwango/internal/base/sysio"
)

func main() {
	slog.SetDefault(slog.New(slog.NewTextHandler(os.Stderr, nil)))
	s := server{}
	address := flag.String("l", "localhost:8080", "`address` to listen to")
	root := flag.String("r", "wwwroot", "`folder` whose files are served")
	flag.StringVar(&s.text, "text", "", "answer every request with this `text`, and serve no files")
	flag.IntVar(&s.most, "most", 1024, "`connections` at a time")
	flag.DurationVar(&s.idleTime, "idle", time.Minute,
		"`time` that a connection may wait for a request")
	flag.DurationVar(&s.headTime, "head", 10*time.Second, "`time` that a request may take to come")
	flag.DurationVar(&s.stallTime, "stall", 30*time.Second,
		"`time` that a client may take for 32 KiB of an answer")
	flag.DurationVar(&s.grace, "grace", 5*time.Second, "`time` for answers under way at a stop")
	flag.Parse()
	if flag.NArg() > 0 || s.most < 1 || min(s.idleTime, s.headTime, s.stallTime, s.grace) <= 0 {
		slog.Error("a flag's value is wrong; -h shows all flags")
		os.Exit(2)
	}
	if err := serve(&s, *address, *root); err != nil {
		slog.Error("ring ends", "error", err)
		os.Exit(1)
	}
	slog.Info("stopped")
}

// serve runs the server on one thread until a signal comes.
func serve(s *server, address, root string) (err error) {
	runtime.LockOSThread() // the ring takes entries from the thread that has made it
	c, err := NewContext(s.most + 1)
	if err != nil {
		return err
	}
	if s.listener, err = listen(address); err != nil {
		return err
	}
	if s.text == "" {
		s.root, err = unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &os.PathError{Op: "open", Path: root, Err: err}
		}
	}
	if s.stop, err = unix.Eventfd(0, unix.EFD_CLOEXEC); err != nil {
		return err
	}
	stopped, forget := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(stopped, func() {
		forget() // the next signal ends the process
		_, _ = unix.Write(s.stop, []byte{1, 0, 0, 0, 0, 0, 0, 0})
	})
	slog.Info("listening", "address", sysio.LocalAddr(s.listener))
	if _, err = Run(c, s.serve); err != nil {
		return err
	}
	return c.Close()
}
