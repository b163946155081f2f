package sysio_test

import (
	"net/netip"
	"testing"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

var (
	alice = netip.MustParseAddr("192.0.2.1")
	bob   = netip.MustParseAddr("192.0.2.2")
)

// upload makes a file of n bytes that may give way.
func upload(t *testing.T, s *sysio.TempSpace, client netip.Addr, n int) *sysio.TempFile {
	t.Helper()
	f := must.Get(s.CreateUpload(client))(t)
	t.Cleanup(func() { f.Close() })
	must.Get(f.Write(make([]byte, n)))(t)
	return f
}

// TestShareOfSpace: a client holds as much as is free, so that there is room for another one. Its
// slowest upload gives way to its others.
func TestShareOfSpace(t *testing.T) {
	t.Parallel()
	var s sysio.TempSpace
	s.Configure(t.TempDir(), 1000)
	slow := upload(t, &s, alice, 100)
	sysio.Age(slow, 100)
	var last *sysio.TempFile
	for range 5 { // too young to give way
		last = upload(t, &s, alice, 100)
	}
	if n := s.UsedBy(alice); n != 500 || s.Used() != 500 {
		t.Errorf("%d bytes of %d are of one client, want 500", n, s.Used())
	}
	if _, err := slow.Write([]byte("x")); err != sysio.ErrTempFull {
		t.Errorf("a write to an upload that has given way: %v", err)
	}
	if err := s.Keep(slow); err != sysio.ErrTempFull {
		t.Errorf("the end of an upload that has given way: %v", err)
	}
	if err := s.Keep(last); err != nil {
		t.Error(err)
	}
	other := upload(t, &s, bob, 250)
	if err := other.Close(); err != nil || s.UsedBy(bob) != 0 || s.Used() != 500 {
		t.Errorf("%v, %d bytes left of %d", err, s.UsedBy(bob), s.Used())
	}
}

// TestOnlyFileOfAClient: a single file may fill the space, and other clients' files then make it
// give way, if it is the slowest.
func TestOnlyFileOfAClient(t *testing.T) {
	t.Parallel()
	var s sysio.TempSpace
	s.Configure(t.TempDir(), 1000)
	large := upload(t, &s, alice, 1000)
	sysio.Age(large, 1)
	f := must.Get(s.CreateUpload(bob))(t)
	defer f.Close()
	must.Get(f.Write(make([]byte, 10)))(t)
	if n := s.Used(); n != 10 {
		t.Errorf("%d bytes are counted, want 10", n)
	}
	if _, err := large.Write([]byte("x")); err != sysio.ErrTempFull {
		t.Error(err)
	}
}

// TestSlowestGivesWay: where the space is full, the upload that has grown most slowly lately gives
// way, whosever it is. What is complete does not, nor does the newcomer that is not the slowest.
func TestSlowestGivesWay(t *testing.T) {
	t.Parallel()
	var s sysio.TempSpace
	s.Configure(t.TempDir(), 1000)
	clients := make([]netip.Addr, 5)
	for i := range clients {
		clients[i] = netip.AddrFrom4([4]byte{192, 0, 2, byte(10 + i)})
	}
	complete := upload(t, &s, clients[0], 200)
	must.Do(t, s.Keep(complete))
	sysio.Age(complete, 500)
	fast := upload(t, &s, clients[1], 200)
	sysio.Age(fast, 2)
	stalled := upload(t, &s, clients[2], 400) // faster at first
	sysio.Age(stalled, 60)
	steady := upload(t, &s, clients[3], 100)
	sysio.Age(steady, 2)
	newcomer := upload(t, &s, clients[4], 150)
	if _, err := stalled.Write([]byte("x")); err != sysio.ErrTempFull {
		t.Errorf("the stalled upload: %v", err)
	}
	for _, f := range []*sysio.TempFile{complete, fast, steady, newcomer} {
		if _, err := f.Write([]byte("x")); err != nil {
			t.Error(err)
		}
	}

	// The slowest one finds no room itself.
	if _, err := steady.Write(make([]byte, 400)); err != sysio.ErrTempFull {
		t.Errorf("the slowest: %v", err)
	}
	if _, err := fast.ReadAt(make([]byte, 1), 200); err != nil {
		t.Error("another one has given way to the slowest: ", err)
	}
}

// TestShareOfASite: the clients of one IPv6 /48 together leave a quarter of the space.
func TestShareOfASite(t *testing.T) {
	t.Parallel()
	var s sysio.TempSpace
	s.Configure(t.TempDir(), 1000)
	var all []*sysio.TempFile
	reserve := func(client netip.Addr) error {
		f, err := s.Create(client)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { f.Close() })
		all = append(all, f)
		_, err = f.Write(make([]byte, 50))
		return err
	}
	var err error
	for i := 0; err == nil && i < 20; i++ {
		err = reserve(netip.AddrFrom16([16]byte{0: 0x20, 1: 1, 7: byte(i)}))
	}
	if err != sysio.ErrTempFull || s.Used() != 750 {
		t.Errorf("%d bytes, want 750; %v", s.Used(), err)
	}
	if err := reserve(netip.MustParseAddr("2001:0:1::")); err != nil {
		t.Error("another client network: ", err)
	}
	for range 4 { // clients without an address, which share all that is left
		if err := reserve(netip.Addr{}); err != nil {
			t.Error(err)
		}
	}
	for _, f := range all {
		f.Close()
	}
	if n := s.Used() + s.UsedBy(netip.Addr{}); n != 0 {
		t.Errorf("%d bytes left", n)
	}
}

// TestReservedBesideAFile: what is reserved beside a client's only file counts as a part of it.
func TestReservedBesideAFile(t *testing.T) {
	t.Parallel()
	var s sysio.TempSpace
	s.Configure(t.TempDir(), 1000)
	f := upload(t, &s, alice, 400)
	if err := s.Reserve(f, 400); err != nil {
		t.Error(err)
	}
	if err := s.Reserve(f, 400); err != sysio.ErrTempFull {
		t.Error(err)
	}
	s.Release(f, 400)
	if n := s.UsedBy(alice); n != 400 {
		t.Errorf("%d bytes are counted, want 400", n)
	}
}

// TestCloseOfLargeFile: what a large file holds counts until it is free, which Close does not wait
// for.
func TestCloseOfLargeFile(t *testing.T) {
	t.Parallel()
	var s sysio.TempSpace
	s.Configure(t.TempDir(), 100<<20)
	files := []*sysio.TempFile{upload(t, &s, alice, 16<<20), upload(t, &s, bob, 1000)}
	told := 0
	for _, f := range files {
		f.Closed = func() { told++ }
		for range 2 {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
	if told != 2 || s.UsedBy(bob) != 0 {
		t.Errorf("told %d times, %d bytes left", told, s.UsedBy(bob))
	}
	wait.Until(t, "the large file is free", func() bool { return s.Used() == 0 })
}
