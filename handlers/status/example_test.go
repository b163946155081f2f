package status_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"

	"github.com/lwango/lwango"
)

// In a configuration:
//
//	[[site.route]]
//	prefix = "/status"
//	module = "status"
func Example() {
	dir, err := os.MkdirTemp("", "status")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "lwango.conf")
	err = os.WriteFile(file, []byte(`
[[site]]
[[site.route]]
prefix = "/"
handler = "hello_world"

[[site.route]]
prefix = "/status"
module = "status"
`), 0o600)
	if err != nil {
		log.Fatal(err)
	}

	ctx, stop := context.WithCancel(context.Background())
	s := lwango.Server{File: file, Addr: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler)}
	running, err := s.Start(ctx)
	if err != nil {
		log.Fatal(err)
	}
	url := "http://" + running.Addrs()[0]
	for _, path := range []string{"/", "/", "/status/metrics"} {
		answer, err := http.Get(url + path)
		if err != nil {
			log.Fatal(err)
		}
		text, err := io.ReadAll(answer.Body)
		answer.Body.Close()
		if err != nil {
			log.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, `lwango_requests_total{`) &&
				strings.Contains(line, `route="/",class="2xx"`) {
				fmt.Print(line)
			}
		}
	}
	http.DefaultClient.CloseIdleConnections()
	stop()
	if err := running.Wait(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// lwango_requests_total{site="*",route="/",class="2xx"} 2
}
