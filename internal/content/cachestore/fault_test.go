package cachestore_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/coro"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/loops"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

const killed = "LWANGO_CACHE_KILLED"

// TestKilled: a process that is killed while it fills leaves whole objects and nothing else.
func TestKilled(t *testing.T) {
	if folder := os.Getenv(killed); folder != "" {
		s := onDisk(t, folder)
		random := rand.New(rand.NewPCG(1, 2))
		run(t, 1, func(th *loop.Thread) {
			for i := 0; ; i++ {
				key := fmt.Sprintf("/%03d/", i%150)
				keep(t, th, s, key, cachestore.Head{}, makeBody(random, key))
				if i%20 == 19 {
					purge(t, th, s, cachestore.Purge{Lines: [][]byte{[]byte(key)}})
				}
			}
		})
	}
	t.Parallel()
	folder := t.TempDir()
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), killed+"="+folder)
	must.Do(t, cmd.Start())
	wait.Until(t, "there are some files", func() bool { return len(files(t, folder)) > 60 })
	must.Do(t, cmd.Process.Kill())
	_ = cmd.Wait()
	s := onDisk(t, folder)
	settle(t, s)
	found := 0
	run(t, 1, func(th *loop.Thread) {
		for i := range 150 {
			key := fmt.Sprintf("/%03d/", i)
			for _, b := range get(t, th, s, key) {
				if found++; !good([]byte(b), key) {
					t.Errorf("%s: %d bytes are bad", key, len(b))
				}
			}
		}
	})
	s.Check()
	if x := s.Stats(); found < 50 || x.Damaged > 0 || x.DiskObjects != int64(found) {
		t.Errorf("%d found, %+v", found, x)
	}
	if left := must.Get(filepath.Glob(filepath.Join(folder, "new", "*")))(t); len(left) > 0 {
		t.Errorf("%q is left", left)
	}
}

// TestSlowDisk: a disk that hangs stops no thread for long: what comes is not kept, and goes on to
// its reader; what is there is as good as not there.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	body := bytes.Repeat([]byte("0123456789"), 300_000)
	run(t, 1, func(th *loop.Thread) { keep(t, th, s, "/old", cachestore.Head{}, body) })
	settle(t, s)
	s.CloseKept()
	settle(t, s)
	goOn := s.Stall()
	ls := loops.Start(t, modes.Mode{Loops: 2, Handoff: coro.Direct}, nil, nil)
	r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
	done := make(chan error, 3)
	ls.Go(0, func(th *loop.Thread) {
		f.Start(cachestore.Head{}, -1)
		for at := 0; at < len(body); at += 10_000 {
			if err := f.Write(th, body[at:at+10_000], -1); err != nil {
				done <- err
				return
			}
		}
		_, err := f.Commit()
		done <- err
	})
	ls.Go(1, func(th *loop.Thread) {
		defer r.Close()
		r.Bind(th, -1)
		got, err := io.ReadAll(struct{ io.Reader }{r})
		if err == nil && !bytes.Equal(got, body) {
			err = fmt.Errorf("%d bytes were read", len(got))
		}
		done <- err
	})
	ls.Go(1, func(th *loop.Thread) {
		if _, err := bodyOf(th, s.Lookup(th, s.Key([]byte("/old")))[0]); err != loop.ErrDeadlineExceeded {
			done <- fmt.Errorf("a file is opened: %v", err)
			return
		}
		done <- nil
	})
	ls.Skip(3 * time.Second)
	for range 3 {
		if err := <-done; err != nil && err != cachestore.ErrNotKept {
			t.Error(err)
		}
	}
	run(t, 1, func(th *loop.Thread) { // now it is known that the disk hangs
		if keep(t, th, s, "/x", cachestore.Head{}, body[:1000]) != nil {
			t.Error("it is kept")
		}
	})
	goOn()
	settle(t, s)
	s.Check()
	if x := s.Stats(); x.Failed == 0 || x.Filling > 0 || x.DiskObjects != 1 {
		t.Errorf("%+v", x)
	}
}

// TestManyPurgesOnDisk: when there are too many marks, the heads of all files are read and judged,
// and the marks are forgotten, on disk, too.
func TestManyPurgesOnDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := onDisk(t, folder)
	body := bytes.Repeat([]byte("x"), 500)
	run(t, 1, func(th *loop.Thread) {
		for i := range 30 {
			keep(t, th, s, fmt.Sprint("/", i), cachestore.Head{Tags: fmt.Sprint("t", i%3)}, body)
		}
	})
	settle(t, s)
	s.Close()
	s = onDisk(t, folder) // all heads are on disk
	settle(t, s)
	tags := []string{"t0"}
	for i := range cachestore.MaxMarks + 10 {
		tags = append(tags, fmt.Sprint("x", i))
	}
	must.Do(t, s.Purge(cachestore.Purge{Tags: []string{"t1"}, Soft: true}))
	must.Do(t, s.Purge(cachestore.Purge{Tags: tags}))
	settle(t, s)
	if n := s.Marks(); n > 0 {
		t.Errorf("%d marks are left", n)
	}
	if n := len(must.Get(os.ReadFile(filepath.Join(folder, "purges")))(t)); n > 0 {
		t.Errorf("%d bytes of marks are left", n)
	}
	s.Close()
	s = onDisk(t, folder)
	settle(t, s)
	run(t, 1, func(th *loop.Thread) {
		for i := range 30 {
			l := s.Lookup(th, s.Key([]byte(fmt.Sprint("/", i))))
			if len(l) == 0 != (i%3 == 0) || len(l) > 0 && l[0].Stale() != (i%3 == 1) {
				t.Errorf("%d: %v", i, l)
			}
		}
	})
}

// TestPurgesDamaged: if it is not known what was purged, nothing comes back.
func TestPurgesDamaged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := onDisk(t, folder)
	run(t, 1, func(th *loop.Thread) { keep(t, th, s, "/k", cachestore.Head{}, make([]byte, 500)) })
	must.Do(t, s.Purge(cachestore.Purge{Tags: []string{"some"}}))
	settle(t, s)
	s.Close()
	name := filepath.Join(folder, "purges")
	must.Do(t, os.Truncate(name, must.Get(os.Stat(name))(t).Size()-1))
	for range 2 {
		s = onDisk(t, folder)
		settle(t, s)
		run(t, 1, func(th *loop.Thread) {
			if len(s.Lookup(th, s.Key([]byte("/k")))) > 0 {
				t.Error("it is found")
			}
		})
		s.Close()
	}
}

// TestDiskFull: without room on the disk answers are not kept, and go to their readers; with room
// they are kept again.
func TestDiskFull(t *testing.T) {
	ci.Root(t)
	folder := t.TempDir()
	must.Do(t, syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=2m"))
	defer func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) }()
	s := onDisk(t, folder)
	filler := filepath.Join(folder, "filler")
	must.Do(t, os.WriteFile(filler, make([]byte, 1<<20), 0o600))
	body := []byte(strings.Repeat("0123456789", 150_000))
	for _, length := range []int64{-1, int64(len(body))} {
		r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
		run(t, 2, func(th *loop.Thread) {
			f.Start(cachestore.Head{}, length)
			must.Do(t, f.Write(th, body, -1))
			_, _ = f.Commit()
		}, func(th *loop.Thread) {
			r.Bind(th, -1)
			got, err := io.ReadAll(struct{ io.Reader }{r})
			if err != nil || !bytes.Equal(got, body) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if o, err := r.Object(th, -1); o != nil || err != cachestore.ErrNotKept {
				t.Errorf("%v, %v", o, err)
			}
		})
		r.Close()
	}
	settle(t, s)
	must.Do(t, os.Remove(filler))
	run(t, 1, func(th *loop.Thread) {
		if keep(t, th, s, "k", cachestore.Head{}, body) == nil {
			t.Error("with room it is not kept")
		}
	})
	settle(t, s)
	s.Check()
	s.Close()
}

// TestHitOnDisk: a hit of a file that is open allocates nothing.
func TestHitOnDisk(t *testing.T) {
	s := onDisk(t, t.TempDir())
	run(t, 1, func(th *loop.Thread) {
		keep(t, th, s, "/k", cachestore.Head{}, make([]byte, 5000))
		if n := testing.AllocsPerRun(100, func() {
			var space [2]*cachestore.Object
			o := s.Find(th, s.Key([]byte("/k")), space[:0])[0]
			o.Hit()
			f, _, err := o.Open(th)
			if err != nil || o.Size() != 5000 {
				t.Error(err)
				return
			}
			f.Close()
		}); n != 0 {
			t.Errorf("%v allocations", n)
		}
	})
}

// BenchmarkScan finds files by their names; per file.
func BenchmarkScan(b *testing.B) {
	folder := b.TempDir()
	s := onDisk(b, folder)
	settle(b, s)
	s.Close()
	for i := range b.N {
		name := filepath.Join(folder, cachestore.FileName(uint64(i)*0x9e3779b97f4a7c15, uint64(i), 5000))
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			must.Do(b, os.Mkdir(filepath.Dir(name), 0o700))
		}
	}
	b.ResetTimer()
	s = onDisk(b, folder, func(o *cachestore.Options) { o.Memory, o.Disk = 64<<20, 1<<30 })
	settle(b, s)
}

// BenchmarkFirstUse reads and checks a body of 1 MiB that a process before has kept.
func BenchmarkFirstUse(b *testing.B) {
	folder := b.TempDir()
	s := onDisk(b, folder)
	l := must.Get(loop.New(loop.Options{}))(b)
	l.Go(func(th *loop.Thread) { keep(b, th, s, "/k", cachestore.Head{}, make([]byte, 1<<20)) })
	must.Do(b, l.Run())
	settle(b, s)
	for b.Loop() {
		s.Close()
		s = onDisk(b, folder)
		settle(b, s)
		l := must.Get(loop.New(loop.Options{}))(b)
		l.Go(func(th *loop.Thread) { get(b, th, s, "/k") })
		must.Do(b, l.Run())
	}
}

// TestHeadsComeBack: an object can be used while its head is forgotten and read again.
func TestHeadsComeBack(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	stop, ended := make(chan struct{}), make(chan struct{})
	run(t, 1, func(th *loop.Thread) {
		o := keep(t, th, s, "/k", cachestore.Head{}, make([]byte, 5000))
		go func() {
			defer close(ended)
			for {
				select {
				case <-stop:
					return
				default:
				}
				if o.Size() != 5000 || o.Head().Status != 0 || o.Stale() {
					t.Error("it has changed")
					return
				}
			}
		}()
		for range 50 {
			s.Forget()
			l := s.Lookup(th, s.Key([]byte("/k")))
			if len(l) != 1 || l[0] == o || l[0].Size() != 5000 {
				t.Errorf("%v", l)
			}
		}
	})
	close(stop)
	<-ended
	s.Check()
}

// TestFreshenAfterEviction: a 304 is about the file, whether its head is in memory still, or again.
func TestFreshenAfterEviction(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	run(t, 1, func(th *loop.Thread) {
		old := keep(t, th, s, "/k", cachestore.Head{Fields: "old"}, make([]byte, 5000))
		for i, again := range []bool{false, true} {
			r, f := s.Begin(s.Key([]byte("/k")), s.Lookup(th, s.Key([]byte("/k"))), anyone)
			s.Forget()
			if again {
				s.Lookup(th, s.Key([]byte("/k")))
			}
			fields := fmt.Sprint("new ", i)
			if o := f.Freshen(old, cachestore.Head{Fields: fields}); o == nil {
				t.Error("it is not kept")
			}
			r.Close()
			if l := s.Lookup(th, s.Key([]byte("/k"))); len(l) != 1 || l[0].Head().Fields != fields {
				t.Errorf("%v", l)
			}
			s.Check()
		}
	})
	settle(t, s)
	s.Forget()
	run(t, 1, func(th *loop.Thread) {
		if l := s.Lookup(th, s.Key([]byte("/k"))); len(l) != 1 || l[0].Head().Fields != "new 1" {
			t.Errorf("on disk there is another head: %v", l)
		}
	})
}
