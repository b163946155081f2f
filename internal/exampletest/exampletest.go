// Package exampletest serves a handler for as long as an example runs, so that the examples of many
// packages show a handler and what its client gets, and nothing else.
package exampletest

import (
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/loop"
)

// Serve serves h on a loop of its own, at a free port of the loopback address. url has no slash at
// its end. stop ends the loop, and closes the idle connections of http.DefaultClient, which would
// look like a leak. An error ends the process: an example has no other way to fail.
func Serve(h conn.Handler) (url string, stop func()) {
	quiet := slog.New(slog.DiscardHandler)
	l, err := loop.New(loop.Options{Logger: quiet})
	if err != nil {
		log.Fatal(err)
	}
	fd, err := loop.Listen("tcp", "127.0.0.1:0", false)
	if err != nil {
		log.Fatal(err)
	}
	server := conn.NewServer(conn.Config{Handler: h, Logger: quiet})
	if _, err := server.Serve(l, conn.Listener{FD: fd}); err != nil {
		log.Fatal(err)
	}
	url = "http://" + loop.LocalAddr(fd).String()
	ended := make(chan error, 1)
	go func() { ended <- l.Run() }()
	return url, func() {
		http.DefaultClient.CloseIdleConnections()
		l.Stop(time.Second)
		if err := <-ended; err != nil {
			log.Fatal(err)
		}
	}
}

// Show prints the status line of an answer, which a method of http.Client has returned, and then
// the body.
func Show(answer *http.Response, err error) {
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Status)
	fmt.Printf("%s\n", body)
}
