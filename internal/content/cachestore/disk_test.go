package cachestore_test

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// onDisk opens a store with a folder that takes what is longer than 100 bytes.
func onDisk(t testing.TB, folder string, change ...func(*cachestore.Options)) *cachestore.Store {
	t.Helper()
	o := cachestore.Options{Memory: 8 << 20, Folder: folder, Disk: 64 << 20, Split: 100,
		Note: note, Parse: parse}
	for _, f := range change {
		f(&o)
	}
	s := must.Get(cachestore.New(o))(t)
	t.Cleanup(func() { s.Close() })
	return s
}

func settle(t testing.TB, s *cachestore.Store) {
	t.Helper()
	wait.Until(t, "the disk has nothing to do", s.Settled)
}

// keep keeps an answer, on a thread, and waits until it is kept or is not.
func keep(t testing.TB, th *loop.Thread, s *cachestore.Store, key string, h cachestore.Head,
	body []byte) *cachestore.Object {
	t.Helper()
	for {
		r, f := s.Begin(s.Key([]byte(key)), s.Lookup(th, s.Key([]byte(key))), anyone)
		if r == nil {
			continue
		}
		defer r.Close()
		f.Start(h, int64(len(body)))
		if err := f.Write(th, body, -1); err != nil {
			f.Abort(err)
			return nil
		}
		_, _ = f.Commit()
		o, _ := r.Object(th, -1)
		return o
	}
}

// get returns the bodies of a key's variants.
func get(t testing.TB, th *loop.Thread, s *cachestore.Store, key string) (bodies []string) {
	t.Helper()
	for _, o := range s.Lookup(th, s.Key([]byte(key))) {
		b, err := bodyOf(th, o)
		switch {
		case err == cachestore.ErrGone:
		case err != nil:
			t.Error(err)
		default:
			bodies = append(bodies, string(b))
		}
	}
	return bodies
}

// files returns the names of the objects' files.
func files(t testing.TB, folder string) (names []string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() && strings.Count(d.Name(), "-") == 2 {
			names = append(names, path)
		}
		return err
	})
	must.Do(t, err)
	return names
}

func note(h *cachestore.Head) string {
	return h.Reason
}

func parse(h *cachestore.Head, note string) { h.Reason = "parsed " + note }

// TestRestart: what is on disk is found again, with its head; what was evicted or purged is not.
func TestRestart(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	body := func(i int) []byte { return bytes.Repeat([]byte(fmt.Sprintf("%04d", i)), 30_000) }
	head := func(i int) cachestore.Head {
		return cachestore.Head{Status: 200 + i, Fields: fmt.Sprint("a: ", i, "\r\n"),
			Reason: fmt.Sprint(i),
			Tags:   fmt.Sprint("t", i/10)}
	}
	s := onDisk(t, folder)
	run(t, 1, func(th *loop.Thread) {
		for i := range 40 {
			if keep(t, th, s, fmt.Sprint("/", i), head(i), body(i)) == nil {
				t.Fatal("it is not kept")
			}
		}
		h := head(0)
		h.Vary = "v"
		keep(t, th, s, "/0", h, []byte(strings.Repeat("variant", 100)))
		keep(t, th, s, "/1", head(1), body(1001)) // anew
		purge(t, th, s, cachestore.Purge{Lines: [][]byte{[]byte("/2")}})
		purge(t, th, s, cachestore.Purge{Lines: [][]byte{[]byte("/3")}, Soft: true})
		purge(t, th, s, cachestore.Purge{Lines: [][]byte{[]byte("/4"), []byte("/5")}})
		purge(t, th, s, cachestore.Purge{Lines: [][]byte{[]byte("/6")}, Soft: true})
		purge(t, th, s, cachestore.Purge{Tags: []string{"t1"}})
		purge(t, th, s, cachestore.Purge{Tags: []string{"t2"}, Soft: true})
		keep(t, th, s, "/10", head(10), body(10)) // after its purge
		r, f := s.Begin(s.Key([]byte("/20")), s.Lookup(th, s.Key([]byte("/20"))), anyone)
		f.Freshen(s.Lookup(th, s.Key([]byte("/20")))[0], cachestore.Head{Status: 299, Fields: "fresh"})
		r.Close()
		r, f = s.Begin(s.Key([]byte("/half")), nil, anyone)
		f.Start(head(7), -1)
		must.Do(t, f.Write(th, body(7), -1))
		r.Close()
	})
	settle(t, s)
	s.Check()
	s.Close()
	s = onDisk(t, folder)
	if x := s.Stats(); x.MemoryObjects > 0 {
		t.Errorf("heads are read at the start: %+v", x)
	}
	settle(t, s)
	check := func(s *cachestore.Store) {
		run(t, 1, func(th *loop.Thread) {
			for i := range 40 {
				want := []string{string(body(i))}
				switch {
				case i == 0:
					want = []string{strings.Repeat("variant", 100), want[0]}
				case i == 1:
					want = []string{string(body(1001))}
				case i == 2, i == 4, i == 5, i > 10 && i < 20:
					want = nil
				}
				got := get(t, th, s, fmt.Sprint("/", i))
				if i == 0 {
					slices.SortFunc(got, func(a, b string) int { return len(a) - len(b) })
				}
				if !slices.Equal(got, want) {
					t.Errorf("%d: %d bodies, want %d", i, len(got), len(want))
				}
				for _, o := range s.Lookup(th, s.Key([]byte(fmt.Sprint("/", i)))) {
					h := head(i)
					switch want := fmt.Sprint("parsed ", i); {
					case i == 20:
						if o.Head().Status != 299 || o.Head().Fields != "fresh" || o.Stale() {
							t.Errorf("20: %+v", o.Head())
						}
					case o.Head().Status != h.Status || o.Head().Fields != h.Fields ||
						o.Head().Reason != want:
						t.Errorf("%d: %+v", i, o.Head())
					case o.Stale() != (i == 3 || i == 6 || i > 20 && i < 30):
						t.Errorf("%d: stale %v", i, o.Stale())
					}
				}
			}
			if l := s.Lookup(th, s.Key([]byte("/half"))); len(l) > 0 {
				t.Error("half an answer is found")
			}
		})
		s.Check()
	}
	check(s)
	s.Configure(cachestore.Options{Memory: 1, Disk: 64 << 20, Split: 100}) // heads are evicted
	s.Configure(cachestore.Options{Memory: 8 << 20, Disk: 64 << 20, Split: 100,
		Note: note, Parse: parse})
	check(s)
	if n := len(files(t, folder)); n != 29 {
		t.Errorf("%d files", n)
	}
}

// TestReaders: readers that come late or are slow read the beginning from the file while it is
// written.
func TestReaders(t *testing.T) {
	t.Parallel()
	s := onDisk(t, t.TempDir())
	body := make([]byte, 6<<20)
	for i := range body {
		body[i] = byte(i * 7 >> 8)
	}
	key := []byte("k")
	r0, f := s.Begin(s.Key(key), nil, anyone)
	defer r0.Close()
	var fs []func(*loop.Thread)
	fs = append(fs, func(th *loop.Thread) {
		f.Start(cachestore.Head{}, -1)
		for i := 0; i < len(body); i += 100_000 {
			must.Do(t, f.Write(th, body[i:min(i+100_000, len(body))], -1))
			th.Yield()
		}
		if o, err := f.Commit(); o != nil || err != nil {
			t.Errorf("%v, %v", o, err)
		}
	})
	for i := range 8 {
		fs = append(fs, func(th *loop.Thread) {
			var r *cachestore.Reader
			for {
				var f *cachestore.Fill
				if r, f = s.Begin(s.Key(key), s.Lookup(th, s.Key(key)), anyone); f != nil {
					t.Fatal("it does not join")
				} else if r != nil {
					break
				}
				if got := get(t, th, s, "k"); len(got) == 1 && got[0] == string(body) {
					return // that late
				}
			}
			defer r.Close()
			r.Bind(th, -1)
			var got []byte
			p := make([]byte, 50_000)
			for {
				n, err := r.Read(p)
				if got = append(got, p[:n]...); err != nil {
					break
				}
				if i%2 == 0 {
					_ = th.Sleep(100 * time.Microsecond)
				}
			}
			if !bytes.Equal(got, body) {
				t.Errorf("%d bytes were read", len(got))
			}
			o, err := r.Object(th, -1)
			if err != nil || o.Size() != int64(len(body)) {
				t.Errorf("%v, %v", o, err)
			}
		})
	}
	begun := time.Now()
	run(t, 2, fs...)
	if d := time.Since(begun); d > cachestore.SlowDisk && !race.Enabled {
		t.Errorf("it took %v: the fill waits although there is room", d)
	}
	settle(t, s)
	s.Check()
}

// TestLocked: the second process that wants a folder gets an error; one that waits does without it,
// and takes it once it is free.
func TestLocked(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	first := onDisk(t, folder)
	_, err := cachestore.New(cachestore.Options{Memory: 1 << 20, Folder: folder, Disk: 1 << 20})
	if !errors.Is(err, cachestore.ErrLocked) || !strings.Contains(err.Error(), folder) {
		t.Errorf("%v", err)
	}
	second := onDisk(t, folder, func(o *cachestore.Options) { o.Wait = true })
	long := bytes.Repeat([]byte("x"), 10_000)
	run(t, 1, func(th *loop.Thread) {
		keep(t, th, first, "/1", cachestore.Head{}, long)
		keep(t, th, first, "/2", cachestore.Head{}, long)
		if o := keep(t, th, second, "/3", cachestore.Head{}, long); o == nil {
			t.Error("what memory has room for is not kept")
		}
		purge(t, th, second, cachestore.Purge{Lines: [][]byte{[]byte("/2")}})
	})
	settle(t, first)
	first.Close()
	settle(t, second)
	run(t, 1, func(th *loop.Thread) {
		for key, want := range map[string]int{"/1": 1, "/2": 0, "/3": 1} {
			if n := len(get(t, th, second, key)); n != want {
				t.Errorf("%s: %d, want %d", key, n, want)
			}
		}
		if keep(t, th, first, "/4", cachestore.Head{}, long) != nil ||
			len(first.Lookup(th, first.Key([]byte("/1")))) > 0 {
			t.Error("a closed store keeps or finds something")
		}
	})
}

// TestDamaged: a file that is damaged anywhere is dropped, and no other body is served.
func TestDamaged(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	body := bytes.Repeat([]byte("0123456789"), 50)
	var name string
	var whole []byte
	try := func(what string, want int, damage func(b []byte) []byte) {
		t.Helper()
		s := onDisk(t, folder)
		if whole == nil {
			run(t, 1, func(th *loop.Thread) { keep(t, th, s, "/k", cachestore.Head{Fields: "f"}, body) })
			settle(t, s)
			s.Close()
			name = files(t, folder)[0]
			whole = must.Get(os.ReadFile(name))(t)
			s = onDisk(t, folder)
		}
		settle(t, s)
		must.Do(t, os.WriteFile(name, damage(bytes.Clone(whole)), 0o600))
		s.Close()
		s = onDisk(t, folder)
		settle(t, s)
		run(t, 1, func(th *loop.Thread) {
			got := get(t, th, s, "/k")
			if len(got) != want || want == 1 && got[0] != string(body) {
				t.Errorf("%s: %d bodies", what, len(got))
			}
		})
		settle(t, s)
		if x := s.Stats(); x.Damaged != uint64(1-want) || x.DiskObjects != int64(want) {
			t.Errorf("%s: %+v", what, x)
		}
		s.Check()
		s.Close()
	}
	try("whole", 1, func(b []byte) []byte { return b })
	head := 64 + len("/k") + len("f")
	for i := 0; i < head; i += 3 {
		try(fmt.Sprint("byte ", i), 0, func(b []byte) []byte { b[i] ^= 4; return b })
	}
	try("in the body", 0, func(b []byte) []byte { b[len(b)-1] ^= 4; return b })
	try("short", 0, func(b []byte) []byte { return b[:len(b)-1] })
	try("long", 0, func(b []byte) []byte { return append(b, 0) })
	try("cut in the head", 0, func(b []byte) []byte { return b[:20] })
	try("empty", 0, func([]byte) []byte { return nil })
}

// FuzzHead: a head that is read back is one that was written, whatever the bytes are.
func FuzzHead(f *testing.F) {
	f.Add(cachestore.EncodeHead("key", cachestore.Head{Status: 200, Fields: "f", Vary: "v", Tags: "t",
		Reason: "n"}, 1000))
	f.Add([]byte("lwcache1"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		cachestore.Reencode(b)
	})
}

// TestFolderRemoved: without its folder a store goes on, and makes it anew.
func TestFolderRemoved(t *testing.T) {
	t.Parallel()
	folder := filepath.Join(t.TempDir(), "cache")
	s := onDisk(t, folder)
	long := bytes.Repeat([]byte("x"), 10_000)
	run(t, 1, func(th *loop.Thread) {
		keep(t, th, s, "/1", cachestore.Head{}, long)
		keep(t, th, s, "/2", cachestore.Head{}, long)
		s.CloseKept()
		must.Do(t, os.RemoveAll(folder))
		if n := len(get(t, th, s, "/1")); n > 0 {
			t.Errorf("%d bodies without a folder", n)
		}
		if keep(t, th, s, "/3", cachestore.Head{}, long) == nil {
			t.Error("the folder is not made anew")
		}
		if n := len(get(t, th, s, "/3")); n != 1 {
			t.Errorf("%d bodies", n)
		}
	})
	settle(t, s)
	s.Check()
	s.Close()
	s = onDisk(t, folder)
	settle(t, s)
	run(t, 1, func(th *loop.Thread) {
		if n := len(get(t, th, s, "/3")); n != 1 {
			t.Errorf("%d bodies after a restart", n)
		}
	})
}

// TestDiskFails: if nothing can be written, answers go to their readers all the same.
func TestDiskFails(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	s := onDisk(t, folder)
	must.Do(t, os.RemoveAll(filepath.Join(folder, "new")))
	must.Write(t, filepath.Join(folder, "new"), "not a folder")
	body := bytes.Repeat([]byte("x"), 5<<20)
	r, f := s.Begin(s.Key([]byte("k")), nil, anyone)
	run(t, 2, func(th *loop.Thread) {
		f.Start(cachestore.Head{}, int64(len(body)))
		must.Do(t, f.Write(th, body, -1))
		_, _ = f.Commit()
	}, func(th *loop.Thread) {
		r.Bind(th, -1)
		var got bytes.Buffer
		if _, err := got.ReadFrom(struct{ *cachestore.Reader }{r}); err != nil ||
			!bytes.Equal(got.Bytes(), body) {
			t.Errorf("%d bytes, %v", got.Len(), err)
		}
		if o, err := r.Object(th, -1); o != nil || err != cachestore.ErrNotKept {
			t.Errorf("%v, %v", o, err)
		}
	})
	r.Close()
	settle(t, s)
	s.Check()
	if x := s.Stats(); x.Failed == 0 || x.DiskBytes != 0 || x.Filling != 0 {
		t.Errorf("%+v", x)
	}
}

// TestDiskBound: the folder stays within its bytes, and what was purged can be sent to its end.
func TestDiskBound(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	const disk = 1 << 20
	s := onDisk(t, folder, func(o *cachestore.Options) { o.Disk = disk; o.MaxObject = disk })
	run(t, 1, func(th *loop.Thread) {
		first := keep(t, th, s, "/first", cachestore.Head{}, bytes.Repeat([]byte("f"), 50_000))
		f, off, err := first.Open(th)
		must.Do(t, err)
		for i := range 100 {
			keep(t, th, s, fmt.Sprint("/", i), cachestore.Head{}, bytes.Repeat([]byte("x"), 50_000))
			if s.Stats().DiskBytes > disk {
				t.Fatal("over the bound")
			}
		}
		must.Do(t, s.Purge(line("/first")))
		if len(s.Lookup(th, s.Key([]byte("/first")))) > 0 {
			t.Error("it is not purged")
		}
		b := make([]byte, 50_000)
		if n, _ := syscall.Pread(int(f.Fd()), b, off); n != 50_000 || b[0] != 'f' || b[n-1] != 'f' {
			t.Errorf("%d bytes of what is being sent", n)
		}
		must.Do(t, f.Close())
	})
	settle(t, s)
	s.Check()
	var total int64
	for _, name := range files(t, folder) {
		total += must.Get(os.Stat(name))(t).Size()
	}
	if total > disk || total < disk/2 {
		t.Errorf("the files have %d bytes", total)
	}
}

// TestRaceOnDisk is TestRace with a disk.
func TestRaceOnDisk(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	rounds := 200
	if race.Enabled {
		rounds = 40
	}
	for range 2 { // the second one finds what the first one has left
		s := onDisk(t, folder, func(o *cachestore.Options) {
			o.Disk, o.Memory, o.MaxObject, o.Split = 1<<20, 1<<20, 1<<20, 10_000
		})
		threads := make([]func(*loop.Thread), 24)
		for i := range threads {
			threads[i] = func(th *loop.Thread) { client(t, s, th, rand.Uint64(), rounds) }
		}
		run(t, 3, threads...)
		settle(t, s)
		s.Check()
		if x := s.Stats(); x.Filling != 0 || x.Fills == 0 || x.Damaged > 0 {
			t.Errorf("%+v", x)
		}
		s.Close()
	}
}

// TestForeignFolder: a folder with files of others stays as it is, and a store says so.
func TestForeignFolder(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"index.html", "state", "ab/file", "new.txt"} {
		folder := t.TempDir()
		must.Write(t, filepath.Join(folder, name), "theirs")
		_, err := cachestore.New(
			cachestore.Options{Memory: 1 << 20, Folder: folder, Disk: 1 << 20, Wait: true})
		if err == nil || !strings.Contains(err.Error(), "has other files, such as") {
			t.Errorf("%s: %v", name, err)
		}
		if b, err := os.ReadFile(filepath.Join(folder, name)); string(b) != "theirs" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	folder := filepath.Join(t.TempDir(), "file")
	must.Write(t, folder, "")
	if _, err := cachestore.New(cachestore.Options{Memory: 1 << 20, Folder: folder}); err == nil {
		t.Error("a file is a folder")
	}
}
