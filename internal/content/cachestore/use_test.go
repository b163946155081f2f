package cachestore_test

import (
	"fmt"
	"io"
	"net/netip"
	"runtime"
	"testing"

	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/loop"
)

// TestUnreadAnswers: what readers have not read yet of answers that are kept, evicted or purged is
// within the bound, since long answers are not kept any more where many of them are read slowly.
func TestUnreadAnswers(t *testing.T) {
	ci.Without(t, race.Enabled, "the race detector has memory of its own")
	const limit = 8 << 20
	s := store(t, limit)
	heap := func() int64 {
		var m runtime.MemStats
		runtime.GC()
		runtime.GC()
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	before := heap()
	var readers []*cachestore.Reader
	kept := 0
	for i := range 60 {
		key := s.Key([]byte(fmt.Sprint("/", i%40))) // some come again, as after a reload
		r, f := s.Begin(key, s.Lookup(nil, key), anyone)
		f.Start(cachestore.Head{}, 1<<20)
		if err := f.Write(nil, make([]byte, 1<<20), -1); err != nil {
			t.Fatal(err)
		}
		if o, _ := f.Commit(); o == nil {
			r.Close()
			continue
		}
		kept++
		readers = append(readers, r)
		if n := s.Stats().MemoryBytes; n > limit {
			t.Fatalf("%d bytes after %d", n, i)
		}
		s.Check()
	}
	if n := heap() - before; kept < 3 || n > limit {
		t.Errorf("%d answers are kept, and %d bytes are in memory", kept, n)
	}
	must.Do(t, s.Purge(cachestore.Purge{All: true}))
	for i := range 40 {
		s.Lookup(nil, s.Key([]byte(fmt.Sprint("/", i))))
	}
	if n := s.Stats(); n.MemoryObjects > 0 || n.MemoryBytes < int64(kept)<<20 {
		t.Errorf("%d are read, and counted is %+v", kept, n)
	}
	s.Check()
	for _, r := range readers {
		if n, err := r.Skip(2 << 20); n != 1<<20 || err != nil && err != io.EOF {
			t.Errorf("%d bytes, %v", n, err)
		}
		r.Close()
	}
	if n := s.Stats().MemoryBytes; n > 1<<20 {
		t.Errorf("%d bytes are left", n)
	}
	s.Check()
	put(t, s, "/new", cachestore.Head{}, string(make([]byte, 1<<20)))
	if len(s.Lookup(nil, s.Key([]byte("/new")))) != 1 {
		t.Error("nothing long is kept any more")
	}
}

// TestBodyOf304: a body that a 304 has left to another object is counted once, whoever sends it,
// and given back when the last one has sent it.
func TestBodyOf304(t *testing.T) {
	t.Parallel()
	s := store(t, 8<<20)
	empty := s.Stats().MemoryBytes
	put(t, s, "/a", cachestore.Head{}, string(make([]byte, 1<<20)))
	kept := s.Stats().MemoryBytes
	key := s.Key([]byte("/a"))
	var users []io.Closer
	for i := range 5 {
		seen := s.Lookup(nil, key)
		users = append(users, seen[0].Use(netip.Addr{}, true))
		r, f := s.Begin(key, seen, anyone)
		if f.Freshen(seen[0], cachestore.Head{Status: i}) == nil {
			t.Fatal("not kept")
		}
		r.Close()
		if n := s.Stats().MemoryBytes; n > kept+4<<10 {
			t.Fatalf("%d bytes, %d before", n, kept)
		}
		s.Check()
	}
	s.Remove(s.Lookup(nil, key)[0])
	for _, u := range users {
		if n := s.Stats().MemoryBytes; n < 1<<20 {
			t.Errorf("%d bytes while it is sent", n)
		}
		s.Check()
		must.Do(t, u.Close())
	}
	if n := s.Stats().MemoryBytes; n != empty {
		t.Errorf("%d bytes, %d when it was empty", n, empty)
	}
	s.Check()
}

// TestFileInUse: a file that is removed while it is sent counts until it is closed, and one that is
// sent is not evicted, since that would give nothing back.
func TestFileInUse(t *testing.T) {
	t.Parallel()
	const disk = 1 << 20
	s := onDisk(t, t.TempDir(), func(o *cachestore.Options) { o.Disk, o.MaxObject = disk, disk })
	settle(t, s)
	body := make([]byte, 50_000)
	run(t, 1, func(th *loop.Thread) {
		var open []*cachestore.File
		for i := range 60 { // of which a third has room
			if o := keep(t, th, s, fmt.Sprint("/", i), cachestore.Head{}, body); o != nil {
				f, _, err := o.Open(th)
				must.Do(t, err)
				open = append(open, f)
			}
			if n := s.Stats().DiskBytes; n > disk {
				t.Fatalf("%d bytes", n)
			}
		}
		if n := int64(len(open)); n < 5 || n > disk/50_000 {
			t.Errorf("%d are kept, and sent", n)
		}
		must.Do(t, s.Purge(cachestore.Purge{All: true}))
		for i := range 60 {
			s.Lookup(th, s.Key([]byte(fmt.Sprint("/", i))))
		}
		if n := s.Stats(); n.DiskObjects > 0 || n.DiskBytes < int64(len(open))*50_000 {
			t.Errorf("%d are sent, and counted is %+v", len(open), n)
		}
		s.Check()
		for _, f := range open {
			must.Do(t, f.Close())
		}
	})
	settle(t, s)
	s.Check()
	if n := s.Stats(); n.DiskBytes != 0 {
		t.Errorf("%+v", n)
	}
}

// TestShareOfClient: a client that does not take long answers has an eighth of the memory for them,
// once a quarter is held so, and cannot end the keeping of others' long answers. What all of a
// network get counts once.
func TestShareOfClient(t *testing.T) {
	t.Parallel()
	const limit, size = 64 << 20, 3 << 20
	s := store(t, limit)
	var all []*cachestore.Object
	for i := range 12 {
		put(t, s, fmt.Sprint("/", i), cachestore.Head{}, string(make([]byte, size)))
		all = append(all, s.Lookup(nil, s.Key([]byte(fmt.Sprint("/", i))))...)
	}
	var users []io.Closer
	use := func(client string, o *cachestore.Object) bool {
		u := o.Use(netip.MustParseAddr(client), true)
		if u != nil {
			users = append(users, u)
		}
		return u != nil
	}
	got := 0
	for _, o := range all {
		if use("192.0.2.1", o) {
			got++
		}
	}
	if got != limit/4/size {
		t.Errorf("%d of %d bodies for a client that was alone", got, len(all))
	}
	if !use("192.0.2.1", all[0]) {
		t.Error("a second connection of the client does not get what the first one gets")
	}
	for i, want := range []bool{true, true, false} {
		if use("2001:db8::1", all[i]) != want {
			t.Errorf("body %d of another client: %v", i, !want)
		}
	}
	if use("2001:db8::2", all[2]) || !use("2001:db8:0:1::", all[2]) {
		t.Error("a /64 is one client, another one is another")
	}
	if u := all[5].Use(netip.MustParseAddr("192.0.2.1"), false); u == nil {
		t.Error("refused, though it must not be")
	} else {
		users = append(users, u)
	}
	s.Check()

	// One that has its share already has nothing long kept, and others have.
	begin := func(client string) bool {
		key := s.Key([]byte("of " + client))
		r, f := s.Begin(key, s.Lookup(nil, key), anyone)
		defer r.Close()
		f.For(netip.MustParseAddr(client))
		f.Start(cachestore.Head{}, size)
		defer f.Abort(io.ErrUnexpectedEOF)
		return f.Keep(true)
	}
	if begin("192.0.2.1") || !begin("192.0.2.9") {
		t.Error("the one that has too much, or another one")
	}
	for _, u := range users {
		must.Do(t, u.Close())
	}
	if s.Shares() != 0 {
		t.Errorf("%d shares are left", s.Shares())
	}
}

// TestShareOfSite: a client with a network for each body that it asks for has a quarter of the
// memory.
func TestShareOfSite(t *testing.T) {
	t.Parallel()
	const limit, size = 64 << 20, 3 << 20
	s := store(t, limit)
	var users []io.Closer
	for i := range 12 {
		put(t, s, fmt.Sprint("/", i), cachestore.Head{}, string(make([]byte, size)))
	}
	for i := range 12 {
		o := s.Lookup(nil, s.Key([]byte(fmt.Sprint("/", i))))[0]
		if u := o.Use(netip.MustParseAddr(fmt.Sprintf("2001:db8:0:%x::1", i)), true); u != nil {
			users = append(users, u)
		}
	}
	if len(users) != limit/4/size {
		t.Errorf("%d bodies for one site", len(users))
	}
	for _, u := range users {
		must.Do(t, u.Close())
	}
	if s.Shares() != 0 {
		t.Errorf("%d shares are left", s.Shares())
	}
}

// TestShareOfReaders: what was kept and has readers counts for them, also for one that is alone, as
// soon as it comes: five answers that a client asks for at once, and does not read, are not all
// kept.
func TestShareOfReaders(t *testing.T) {
	t.Parallel()
	const limit, size = 64 << 20, 7 << 20
	client, other := netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("192.0.2.2")
	s := store(t, limit)
	var readers []*cachestore.Reader
	var fills []*cachestore.Fill
	start := func(name string, client netip.Addr) bool {
		r, f := s.Begin(s.Key([]byte(name)), nil, anyone)
		f.For(client)
		f.Start(cachestore.Head{}, size)
		readers, fills = append(readers, r), append(fills, f)
		return f.Keep(true)
	}
	kept := 0
	for i := range 5 {
		if start(fmt.Sprint("/", i), client) {
			kept++
		}
	}
	if kept != 2 || !start("/other", other) {
		t.Errorf("%d of 5 are kept, and those of others", kept)
	}
	for _, f := range fills {
		if !f.Keep(true) {
			f.Abort(io.ErrUnexpectedEOF)
			continue
		}
		must.Do(t, f.Write(nil, make([]byte, size), -1))
		if _, err := f.Commit(); err != nil {
			t.Error(err)
		}
	}
	if start("/more", client) || !start("/more of the other", netip.MustParseAddr("192.0.2.3")) {
		t.Error("now readers have it")
	}
	for _, f := range fills[len(fills)-2:] {
		f.Abort(io.ErrUnexpectedEOF)
	}
	for _, r := range readers {
		must.Do(t, r.Close())
	}
	if s.Shares() != 0 {
		t.Errorf("%d shares are left", s.Shares())
	}
	s.Check()
}
