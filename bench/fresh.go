package main

import (
	"bytes"
	"fmt"
	"net/netip"

	"golang.org/x/sys/unix"
)

// A freshClient has a connection for each request. The server ends it behind the answer.
type freshClient struct {
	job
	*reactor
	to      unix.Sockaddr
	request []byte
	body    []byte
	answers int
}

// loadFresh is a closed loop: a connection that has ended makes room for the next one.
func loadFresh(j job) figures {
	j.answerShape() // on a connection that stays, all is compared
	at := must(netip.ParseAddrPort(j.Addr))
	request := bytes.TrimSuffix(j.request(j.Addr), []byte("\r\n"))
	c := &freshClient{job: j, reactor: newReactor(64 << 10), body: j.body(),
		to:      &unix.SockaddrInet4{Port: int(at.Port()), Addr: at.Addr().As4()},
		request: append(request, "Connection: close\r\n\r\n"...)}
	defer c.shut()
	for range j.Conns {
		check(c.open())
	}
	return c.byItself(c.reactor, &c.answers)
}

// open connects, which takes no time on loopback, and asks.
func (c *freshClient) open() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	// Its close resets: thousands of connections in TIME-WAIT would use up the ports.
	err = unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &unix.Linger{Onoff: 1})
	if err == nil {
		err = unix.Connect(fd, c.to)
	}
	if err != nil {
		unix.Close(fd)
		return fmt.Errorf("a new connection: %w", err)
	}
	var seen []byte
	l := c.watch(fd, c.answers, func(p []byte) error {
		seen = append(seen, p...)
		return nil
	})
	l.ended = func() error {
		if !bytes.HasPrefix(seen, []byte(goodStatus)) || !bytes.HasSuffix(seen, c.body) {
			return fmt.Errorf("the whole answer is %.60q", seen)
		}
		c.answers++
		c.links[fd] = nil
		unix.Close(fd)
		return c.open()
	}
	return c.write(l, c.request)
}
