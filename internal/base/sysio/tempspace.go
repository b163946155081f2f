//go:build linux && !386 && !arm && !mips && !mipsle

package sysio

import (
	"errors"
	"net/netip"
	"sync"
	"time"

	"github.com/lwango/lwango/internal/base/networks"
)

// ErrTempFull is in the error of a write for which all temporary files together, or those of one
// client, hold too much, or for which the disk has no room.
var ErrTempFull = errors.New("temporary files have reached their limit")

// TempSpace makes temporary files, and counts what they hold together. The zero value makes them in
// os.TempDir, without a limit. It is safe for any goroutine.
//
// With a limit, no client gets all of the space. A client is an address of networks.Of, and may
// hold as much as is free: half of the space if it is alone, a third each if there are two. The
// clients of an IPv6 /48, all of which one customer may have, may hold three times as much as is
// free. A client's only file has no such bound, since the limit has room for any one file. The zero
// Addr stands for any number of clients and has no such bound, either.
//
// If a write finds no room, the slowest upload gives way: the slowest one of the client that holds
// too much, or else of all clients. The space frees its bytes, and the next write to that upload
// fails. So an upload that stalls does not keep others out. Only an upload that is at least a
// second old gives way.
type TempSpace struct {
	mu      sync.Mutex
	dir     string                 // "": os.TempDir
	limit   int64                  // bytes; 0: none
	used    int64                  // bytes
	clients networks.Counts        // bytes
	uploads map[*TempFile]struct{} // those that may give way
}

// Configure sets the folder of files yet to be made, "" for os.TempDir, and the limit in bytes, 0
// for none.
func (s *TempSpace) Configure(dir string, limit int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.dir, s.limit = dir, limit
}

// Used returns how many bytes the files hold.
func (s *TempSpace) Used() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// UsedBy returns how many bytes the files of a client hold.
func (s *TempSpace) UsedBy(client netip.Addr) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	used, _ := s.clients.Of(client)
	return used
}

// Create makes a file for a client.
func (s *TempSpace) Create(client netip.Addr) (*TempFile, error) {
	s.mu.Lock()
	dir := s.dir
	s.mu.Unlock()
	f, err := openTemp(dir)
	if err != nil {
		return nil, TempFull(err)
	}
	now := time.Now()
	return &TempFile{space: s, file: f, client: networks.Of(client), begun: now, grown: now}, nil
}

// CreateUpload is Create of a file that may give way until Keep is called. Until then it is only
// written.
func (s *TempSpace) CreateUpload(client netip.Addr) (*TempFile, error) {
	f, err := s.Create(client)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.uploads == nil {
		s.uploads = make(map[*TempFile]struct{})
	}
	s.uploads[f] = struct{}{}
	return f, nil
}

// Keep says that f, of CreateUpload, is complete. The error is ErrTempFull if it has given way.
func (s *TempSpace) Keep(f *TempFile) error {
	f.busy.Lock()
	defer f.busy.Unlock()
	if f.gone {
		return ErrTempFull
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.uploads, f)
	return nil
}

// Reserve counts n bytes of files that were made elsewhere, as if they were a part of f, until
// Release. Its error is ErrTempFull.
func (s *TempSpace) Reserve(f *TempFile, n int64) error {
	f.busy.Lock()
	defer f.busy.Unlock()
	return s.reserve(f, n)
}

// Release ends the counting of n bytes of Reserve.
func (s *TempSpace) Release(f *TempFile, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.add(f.client, -n)
}

// reserve counts n bytes more for f, which the caller keeps busy.
func (s *TempSpace) reserve(f *TempFile, n int64) error {
	for {
		s.mu.Lock()
		within, ok := s.room(f, n)
		if ok {
			s.add(f.client, n)
			s.mu.Unlock()
			return nil
		}
		var slowest *TempFile
		if !f.spare {
			slowest = s.slowest(within, f)
		}
		if slowest == nil || slowest == f {
			s.mu.Unlock()
			return ErrTempFull
		}
		s.drop(slowest)
		s.mu.Unlock()
		slowest.giveWay()
		slowest.busy.Unlock()
	}
}

// room reports whether there is room for n bytes more in f. If there is not, an upload of the
// clients within has to give way.
func (s *TempSpace) room(f *TempFile, n int64) (within netip.Prefix, ok bool) {
	limit := s.limit
	if limit <= 0 {
		return within, true
	}
	if f.spare {
		limit -= limit / 4
	}
	free := limit - s.used - n
	if free < 0 || !f.client.IsValid() {
		return within, free >= 0
	}
	ofNetwork, ofClientNet := s.clients.Of(f.client)
	network, clientNet := networks.Prefixes(f.client)
	switch {
	case ofNetwork > f.size && ofNetwork+n > free:
		return network, false
	case ofClientNet > f.size && (ofClientNet+n)/3 > free: // with IPv4 never: it is the network
		return clientNet, false
	}
	return within, true
}

// minRateAge is the least age of an upload that can give way. Before that its rate is not known.
const minRateAge = time.Second

// slowest returns the upload that has grown most slowly lately of those of the clients within, or
// of all of them if within is not valid; nil if there is none. Unless it is f, it is busy.
func (s *TempSpace) slowest(within netip.Prefix, f *TempFile) (slowest *TempFile) {
	now, least := time.Now(), 0.0
	for u := range s.uploads {
		if within.IsValid() && !within.Contains(u.client) || now.Sub(u.begun) < minRateAge {
			continue
		}
		if u != f && !u.busy.TryLock() {
			continue // it is being written
		}
		next, rate := u, u.rate(now)
		if u.size > 0 && (slowest == nil || rate < least) {
			next, slowest, least = slowest, u, rate
		}
		if next != nil && next != f {
			next.busy.Unlock()
		}
	}
	return slowest
}

// forget ends the counting of f. The caller keeps f busy.
func (s *TempSpace) forget(f *TempFile) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop(f)
}

// drop is forget for a caller that holds mu.
func (s *TempSpace) drop(f *TempFile) {
	delete(s.uploads, f)
	s.add(f.client, -f.size)
	f.size = 0
}

// add counts n bytes of a client. The caller holds mu.
func (s *TempSpace) add(client netip.Addr, n int64) {
	s.used += n
	s.clients.Add(client, n)
}
