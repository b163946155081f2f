package conn

import (
	"bufio"
	"errors"
	"net"
)

var errNoHijack = errors.ErrUnsupported

func (w *Response) hijack() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoHijack }

func (c *crossing) hijack() (net.Conn, *bufio.Reader, error) { return nil, nil, errNoHijack }
