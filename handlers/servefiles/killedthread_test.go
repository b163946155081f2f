package servefiles_test

import (
	"context"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/modules/around"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// A loop may kill its threads before the cache's thread has run at all. The cache's files are
// closed all the same.
func TestCachedAndKilledBeforeItsThreadRan(t *testing.T) {
	root := tree(t)
	files, err := servefiles.NewSender(servefiles.Settings{Path: root, OpenFiles: 8}, handlers.Env{})
	must.Do(t, err)
	kept := make(chan int, 1)
	s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
		l := req.Thread.Loop()
		if _, ok := req.Layer().HeaderView("Stop"); ok {
			for range 16 { // they take all that threads may have of the next turn
				l.Go(func(*loop.Thread) {
					for began := time.Now(); time.Since(began) < time.Millisecond; {
					}
				})
			}
			defer func() {
				kept <- held(t, root, "big.bin")
				l.Stop(0)
			}()
		}
		status, _ := files.Send(req, resp, "big.bin", 200)
		return status
	})
	c := s.Dial()
	c.Do("HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.Send("HEAD / HTTP/1.1\r\nHost: a\r\nStop: yes\r\n\r\n")
	if n := <-kept; n != 1 {
		t.Errorf("%d open, so this is not about a file that is kept", n)
	}
	wait.Until(t, "the file is closed", func() bool { return held(t, root, "big.bin") == 0 })
}

// slowFS is an fs.FS whose calls for some names wait, and which counts its open files.
type slowFS struct {
	fs.FS
	slow    string // what those names end with
	waiting chan struct{}
	free    chan struct{}
	open    atomic.Int64
	read    atomic.Int64 // folders
}

func newSlowFS(slow string, files fs.FS) *slowFS {
	return &slowFS{FS: files, slow: slow, waiting: make(chan struct{}, 1000),
		free: make(chan struct{})}
}

func (s *slowFS) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, s.slow) {
		s.waiting <- struct{}{}
		<-s.free
	}
	f, err := s.FS.Open(name)
	if err != nil {
		return nil, err
	}
	s.open.Add(1)
	return &slowFile{f, s}, nil
}

// Stat implements fs.StatFS: it does not wait.
func (s *slowFS) Stat(name string) (fs.FileInfo, error) { return fs.Stat(s.FS, name) }

// ReadDir implements fs.ReadDirFS.
func (s *slowFS) ReadDir(name string) ([]fs.DirEntry, error) {
	s.read.Add(1)
	s.waiting <- struct{}{}
	<-s.free
	return fs.ReadDir(s.FS, name)
}

type slowFile struct {
	fs.File
	of *slowFS
}

// ReadAt implements io.ReaderAt, so that the file stays open.
func (f *slowFile) ReadAt(p []byte, off int64) (int, error) {
	return f.File.(io.ReaderAt).ReadAt(p, off)
}

func (f *slowFile) Close() error {
	f.of.open.Add(-1)
	return f.File.Close()
}

// A thread that is killed while it looks for the sibling of a file closes the file, and what a
// worker opens for it later.
func TestKilledAtASibling(t *testing.T) {
	p := defaultPolicy(t)
	files := fstest.MapFS{}
	for _, name := range []string{"a.css", "a.css.gz"} {
		files[name] = &fstest.MapFile{Data: []byte(strings.Repeat("text ", 1000)), ModTime: modified}
	}
	fsys := newSlowFS(".gz", files)
	h, err := servefiles.FS(fsys, servefiles.Defaults,
		handlers.Env{Process: around.In(around.Context{Compression: p})})
	must.Do(t, err)
	s := module.Start(t, modes.Direct, "/", h)
	s.Dial().Send("GET /a.css HTTP/1.1\r\nHost: a\r\nAccept-Encoding: gzip\r\n\r\n")
	<-fsys.waiting
	s.Stop(0)
	if n := fsys.open.Load(); n != 0 {
		t.Errorf("%d files are open", n)
	}
	close(fsys.free)
	wait.Until(t, "the sibling is closed", func() bool { return fsys.open.Load() == 0 })
}

// A thread that is killed while it reads a file to keep it closes the file.
func TestKilledBeforeCached(t *testing.T) {
	root := t.TempDir()
	path := filepath.Join(root, "small.bin")
	must.Do(t, os.WriteFile(path, make([]byte, 10_000), 0o644))
	must.Do(t, os.Chtimes(path, modified, modified))
	for range 20 {
		if killedBeforeCached(t, root, path) {
			return
		}
	}
	t.Skip("the disk is always faster than the look whether it has to be waited for")
}

// killedBeforeCached reports whether the file had to be waited for: a look whether it is in the
// page cache may let the kernel read it.
func killedBeforeCached(t *testing.T, root, path string) bool {
	files, err := servefiles.NewSender(servefiles.Settings{Path: root, OpenFiles: 8}, handlers.Env{})
	must.Do(t, err)
	free := make(chan struct{})
	defer close(free)
	cold := make(chan error, 1)
	s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
		if _, ok := req.Layer().HeaderView("Cold"); ok {
			for range loop.DefaultWorkers { // none is left for the file
				loop.Call(req.Thread, func() (int, error) { <-free; return 0, nil })
			}
			cold <- chilled(path)
		}
		status, _ := files.Send(req, resp, "small.bin", 200)
		return status
	})
	c := s.Dial()
	c.Do("HEAD", "HEAD / HTTP/1.1\r\nHost: a\r\n\r\n")
	c.Send("HEAD / HTTP/1.1\r\nHost: a\r\nCold: yes\r\n\r\n")
	skipIfWarm(t, <-cold)
	s.Settle()
	waits := held(t, root, "small.bin") > 0
	s.Stop(0)
	if n := held(t, root, "small.bin"); n != 0 {
		t.Errorf("%d open", n)
	}
	return waits
}

// Listings that wait for another one keep no worker from others, and if they are killed, nothing is
// read for them.
func TestListingsInTurn(t *testing.T) {
	fsys := newSlowFS(".none", fstest.MapFS{"a/b": {}})
	set := servefiles.Defaults
	set.Listing = true
	list, err := servefiles.FS(fsys, set, handlers.Env{})
	must.Do(t, err)
	free := make(chan struct{})
	s := module.Start(t, modes.Direct, "/", func(req *conn.Request, resp *conn.Response) int {
		switch req.Path() {
		case "/fill":
			for range loop.DefaultWorkers - 2 {
				loop.Call(req.Thread, func() (int, error) { <-free; return 0, nil })
			}
			_, _ = req.Thread.AwaitAny(-1, req.Loop().Stopped())
			return 200
		case "/work":
			_ = req.Thread.Await(-1, func(context.Context) error { return nil })
			return 204
		}
		return list(req, resp)
	})
	for range 3 {
		s.Dial().Send("GET /a/ HTTP/1.1\r\nHost: a\r\n\r\n")
	}
	<-fsys.waiting // the first one
	s.Dial().Send("GET /fill HTTP/1.1\r\nHost: a\r\n\r\n")
	s.Settle()
	if a := s.Request("GET /work", nil, ""); a.StatusCode != 204 {
		t.Errorf("%s", a.Status)
	}
	s.Stop(0)
	close(free)
	close(fsys.free)
	if n := fsys.read.Load(); n != 1 {
		t.Errorf("%d folders were read", n)
	}
}
