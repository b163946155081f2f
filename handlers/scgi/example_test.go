package scgi_test

import (
	"bufio"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/scgi"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration:
//
//	module = "scgi"
//	address = "127.0.0.1:4000"
//
// The application is a few lines here, for one request.
func ExampleRegister() {
	application, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		log.Fatal(err)
	}
	defer application.Close()
	go func() {
		c, err := application.Accept()
		if err != nil {
			log.Fatal(err)
		}
		defer c.Close()
		r, length := bufio.NewReader(c), 0
		if _, err := fmt.Fscanf(r, "%d:", &length); err != nil {
			log.Fatal(err)
		}
		vars := make([]byte, length+1) // a comma is behind them
		if _, err := io.ReadFull(r, vars); err != nil {
			log.Fatal(err)
		}
		asked := strings.Contains(string(vars), "\x00QUERY_STRING\x00dish=soup\x00")
		fmt.Fprintf(c, "Status: 200 OK\r\nContent-Type: text/plain\r\n\r\nsoup: %v", asked)
	}()

	var r handlers.Registry
	scgi.Register(&r)
	m, _ := r.Module("scgi")
	settings := m.NewSettings().(*scgi.Settings)
	settings.Address = []string{application.Addr().String()}
	h, err := m.Build(settings, handlers.Env{Prefix: "/"})
	if err != nil {
		log.Fatal(err)
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "/?dish=soup"))
	// Output:
	// 200 OK
	// soup: true
}
