package stream_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"time"

	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/stream"
)

// A raw TCP service with a thread for each connection, and its client, on one loop.
func ExampleListen() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	ln, err := stream.Listen(l, "tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	l.Go(func(t *loop.Thread) {
		for {
			c, err := ln.Accept()
			if err != nil {
				return // the listener was closed, or the loop stops
			}
			l.Go(func(t *loop.Thread) {
				defer c.Close()
				_ = c.SetDeadline(time.Now().Add(time.Minute))
				fmt.Fprintln(c, "Who is there?")
				name, _ := bufio.NewReader(c).ReadString('\n')
				fmt.Fprint(c, "Hello, ", name)
			})
		}
	})

	l.Go(func(t *loop.Thread) {
		defer ln.Close()
		c, err := stream.Dial(t, time.Second, "tcp", ln.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		fmt.Fprintln(c, "Lwan")
		talk, err := io.ReadAll(c)
		fmt.Print(string(talk))
		if err != nil {
			log.Fatal(err)
		}
	})
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// Who is there?
	// Hello, Lwan
}

// The same service for connections that are mostly idle. The loop calls a handler when something
// has come, and a connection that waits for more is not a thread that waits.
func ExampleServe() {
	l, err := loop.New(loop.Options{})
	if err != nil {
		log.Fatal(err)
	}
	srv, err := stream.StartServer(l, "tcp", "127.0.0.1:0", time.Minute, func(
		t *loop.Thread, s *stream.Conn,
	) error {
		s.SetNoWait(true) // read what has come; the loop calls again
		_, err := io.Copy(s, s)
		return err
	})
	if err != nil {
		log.Fatal(err)
	}

	l.Go(func(t *loop.Thread) {
		defer srv.Close()
		c, err := stream.Dial(t, time.Second, "tcp", srv.Addr().String())
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		for _, word := range []string{"once", "twice"} {
			fmt.Fprint(c, word)
			echo := make([]byte, len(word))
			if _, err := io.ReadFull(c, echo); err != nil {
				log.Fatal(err)
			}
			fmt.Println(string(echo))
		}
	})
	if err := l.Run(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// once
	// twice
}
