package server

import (
	"fmt"
	"io"
	"log"
	"net/http"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
)

// StartExample serves h for as long as an example runs, so that the example shows a handler and
// what its client gets, and nothing else. url has no slash at its end. stop ends the server, and
// closes the idle connections of http.DefaultClient, which would look like a leak.
func StartExample(h conn.Handler) (url string, stop func()) {
	s := Start(example{}, modes.Direct, conn.Config{Handler: h})
	return "http://" + s.Addr, func() {
		http.DefaultClient.CloseIdleConnections()
		s.Stop(time.Second)
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

// example stands for the test, which an example has not got. An error ends the process: an example
// has no other way to fail.
type example struct{ testing.TB }

func (example) Helper()                           {}
func (example) Cleanup(func())                    {}
func (example) Error(args ...any)                 { log.Fatal(args...) }
func (example) Errorf(format string, args ...any) { log.Fatalf(format, args...) }
func (example) Fatal(args ...any)                 { log.Fatal(args...) }
func (example) Fatalf(format string, args ...any) { log.Fatalf(format, args...) }
