package client_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"time"

	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/server"
)

// A handler asks another server, and passes on what comes as it comes. If the handler's own client
// leaves meanwhile, the request to the other server ends as well.
func ExampleGet() {
	quotes := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		io.WriteString(w, "green threads")
	}))
	defer quotes.Close()

	url, stop := server.StartExample(func(req *conn.Request, resp *conn.Response) int {
		answer, err := client.Get(req.Thread, 10*time.Second, quotes.URL+"/of-the-day")
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			return 504
		case err != nil: // errors.Is tells ErrConnect, ErrCut and ErrProtocol apart
			return 502
		}
		resp.Header().Set("Content-Type", answer.Header.Get("Content-Type"))
		if _, err := io.Copy(resp, answer.Body); err != nil {
			resp.Abort() // the client must not take a part for the whole
		}
		return answer.Status
	})
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// green threads
}
