package conn_test

import (
	"io"
	"net"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

func TestStreamsTalk(t *testing.T) {
	l, _ := loop.New(loop.Options{})
	ln, err := conn.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Go(func(th *loop.Thread) {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			l.Go(func(th *loop.Thread) {
				n, err := io.Copy(c, c)
				t.Log(n, err, c.Close())
			})
		}
	})
	l.Go(func(th *loop.Thread) {
		c, err := conn.Dial(th, "tcp", ln.Addr().String(), time.Second)
		if err != nil {
			t.Error(err)
			return
		}
		defer c.Close()
		c.Write([]byte("hello"))
		c.CloseWrite()
		b, err := io.ReadAll(c)
		t.Logf("%q %v", b, err)
		_, err = conn.Dial(th, "tcp", "localhost:1", time.Second)
		t.Log(err)
		_, err = conn.Dial(th, "tcp", "no.such.invalid:http", time.Second)
		t.Log(err)
		ln.Close()
	})
	l.Run()
	_ = net.ErrClosed
}
