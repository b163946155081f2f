package main

import (
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Files that are read from the disk each time: one for each connection, because the kernel keeps
// what another one is being sent.
const (
	coldPath  = "/cold"
	coldFiles = 4
	coldSize  = 4 << 20
)

func coldName(i int) string { return fmt.Sprint(coldPath, "/", i, ".bin") }

// coldFile is where a file is below the root of all.
func coldFile(root string, i int) string { return filepath.Join(root, coldName(i)) }

// writeCold writes a file to the disk: the kernel drops only pages that are there.
func writeCold(name string) {
	f := must(os.Create(name))
	defer f.Close()
	must(f.Write(pattern(coldSize)))
	check(f.Sync())
}

// loadCold asks for files at a fixed rate, each connection for one of its own, of which the page
// cache has nothing.
func loadCold(j job) figures {
	if j.Conns > coldFiles {
		failf("%d connections for %d files", j.Conns, coldFiles)
	}
	pids := must(family(j.Group))
	before, start := must(diskReads(pids)), time.Now()
	every := time.Duration(float64(j.Conns) / j.Rate * float64(time.Second))
	ended := make(chan error)
	for i := range j.Conns {
		go func() {
			_, err := attempt(func(j job) bool { j.readCold(i, every); return true }, j)
			ended <- err
		}()
	}
	for range j.Conns {
		check(<-ended)
	}
	read := must(diskReads(pids)) - before
	return figures{"disk": mebi(read) / time.Since(start).Seconds()}
}

// readCold drops a file from the page cache and asks for it, again and again.
func (j job) readCold(i int, every time.Duration) {
	f := must(os.Open(coldFile(j.Root, i)))
	defer f.Close()
	conn := j.dial()
	defer conn.Close()
	start := time.Now()
	for next := every * time.Duration(i) / time.Duration(j.Conns); next < j.Duration; next += every {
		time.Sleep(next - time.Since(start))
		check(unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED))
		j.ask(conn, http.MethodGet, coldName(i), "")
		if n := must(io.Copy(io.Discard, answer(conn).Body)); n != coldSize {
			failf("%s: %d bytes", coldName(i), n)
		}
	}
}
