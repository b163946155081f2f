package upstream_test

import (
	"context"
	"encoding/binary"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/upstream"
	"golang.org/x/sys/unix"
)

// nameService answers every question for IPv4 addresses, and says that there are no others.
type nameService struct {
	addresses atomic.Value // []netip.Addr
	ttl       atomic.Uint32
	silent    atomic.Bool // it gives no answer
	asked     atomic.Int32
	zone      *zone        // answers in its place; nil: none
	gate      sync.RWMutex // while it is locked, nobody gets through
}

// resolveTo has all names lead to the addresses.
func (n *nameService) resolveTo(addresses ...string) {
	var all []netip.Addr
	for _, a := range addresses {
		all = append(all, netip.MustParseAddr(a))
	}
	n.addresses.Store(all)
}

// reply answers a question.
func (n *nameService) reply(q []byte) []byte {
	if n.zone != nil {
		return n.zone.reply(q, n.ttl.Load())
	}
	end := 12 + strings.IndexByte(string(q[12:]), 0) + 5 // of the question
	reply := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
	if binary.BigEndian.Uint16(q[end-4:]) == 1 {
		for _, a := range n.addresses.Load().([]netip.Addr) {
			binary.BigEndian.PutUint16(reply[6:], binary.BigEndian.Uint16(reply[6:])+1)
			reply = append(reply, 0xc0, 12, 0, 1, 0, 1)
			reply = binary.BigEndian.AppendUint32(reply, n.ttl.Load())
			reply = append(append(reply, 0, 4), a.AsSlice()...)
		}
	}
	return reply
}

// startNames makes n the name service of this process until the test ends.
func startNames(t *testing.T, n *nameService) {
	if n.ttl.Load() == 0 {
		n.ttl.Store(60)
	}
	before := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = before })
	dial := func(context.Context, string, string) (net.Conn, error) {
		n.asked.Add(1)
		n.gate.RLock()
		defer n.gate.RUnlock()
		if n.silent.Load() {
			return nil, io.ErrClosedPipe
		}
		// not a packet connection: each message has its length before it
		client, server := net.Pipe()
		go func() {
			defer server.Close()
			q := make([]byte, 514)
			if _, err := io.ReadFull(server, q[:2]); err != nil {
				return
			}
			q = q[2 : 2+binary.BigEndian.Uint16(q)]
			if _, err := io.ReadFull(server, q); err != nil {
				return
			}
			reply := n.reply(q)
			_, _ = server.Write(append(binary.BigEndian.AppendUint16(nil, uint16(len(reply))),
				reply...))
		}()
		return client, nil
	}
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: dial}
}

// TestHostNames: a host's name is looked up now and then and not for every request, at once where
// its address does not work any more, and the old address will do where no name service answers.
func TestHostNames(t *testing.T) {
	names := new(nameService)
	names.resolveTo("127.0.0.1")
	startNames(t, names)
	port := sharedPort(t, "127.0.0.1", "127.0.0.2")
	startAt(t, "127.0.0.1:"+port, says("one"))
	two := startAt(t, "127.0.0.2:"+port, says("two"))
	pool := new(upstream.Pool)
	r := newRoute(t, pool, []string{"php.test:" + port}, nil)
	ask := func(want string, asked bool) {
		t.Helper()
		before := names.asked.Load()
		if g := r.get("x"); g.text != want {
			t.Error(g)
		}
		if (names.asked.Load() > before) != asked {
			t.Error("asked: ", !asked)
		}
	}
	ask("one", true)
	for range 3 {
		ask("one", false)
	}
	names.resolveTo("127.0.0.2")
	ask("one", false)
	pool.LookUp()
	ask("two", false)

	names.silent.Store(true)
	pool.LookUp()
	ask("two", false) // what it was

	names.silent.Store(false)
	names.resolveTo("127.0.0.1")
	two.stop()
	ask("one", true) // it has moved in time
	ask("one", false)
}

// sharedPort returns a port that is free at both addresses, and no other program's until the test
// ends: it is bound there by sockets that do not listen, beside which others of this process can.
func sharedPort(t *testing.T, a, b string) string {
	t.Helper()
	for {
		port, err := hold(t, a, 0)
		if err == nil {
			_, err = hold(t, b, port)
		}
		switch {
		case err == nil:
			return strconv.Itoa(port)
		case err != unix.EADDRINUSE:
			t.Fatal(err)
		}
	}
}

// hold binds a socket, 0: to any port, and returns the port.
func hold(t *testing.T, address string, port int) (int, error) {
	fd := must.Get(unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0))(t)
	t.Cleanup(func() { unix.Close(fd) })
	must.Do(t, unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)) // as net.Listen
	at := &unix.SockaddrInet4{Addr: netip.MustParseAddr(address).As4(), Port: port}
	if err := unix.Bind(fd, at); err != nil {
		return 0, err
	}
	return must.Get(unix.Getsockname(fd))(t).(*unix.SockaddrInet4).Port, nil
}
