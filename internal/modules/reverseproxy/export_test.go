package reverseproxy

import (
	"net/netip"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/sysio"
)

// Failed reports whether err speaks against the upstream, which has said something or not.
func Failed(gotFirst bool, err error) bool {
	c := Call{GotFirstByte: gotFirst}
	return c.upstreamFailed(err)
}

// Spool is spool.
type Spool struct{ spool }

// NewSpool makes one whose file is of that size.
func NewSpool(size int64) *Spool { return NewSpoolIn(new(sysio.TempSpace), size) }

// NewSpoolIn is NewSpool with files in space.
func NewSpoolIn(space *sysio.TempSpace, size int64) *Spool {
	create := func() (conn.TempFile, error) {
		f, err := space.Create(netip.Addr{})
		if err != nil {
			return nil, err
		}
		return f, nil
	}
	return &Spool{spool{size: size, memory: spoolMemory, temp: create}}
}

// Its methods.
func (s *Spool) Len() int64                 { return s.len() }
func (s *Spool) Write(p []byte) error       { return s.write(p) }
func (s *Spool) Read(p []byte) (int, error) { return s.read(p) }
func (s *Spool) Drop()                      { s.drop() }
