package uwsgi_test

import (
	"encoding/binary"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"strings"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/uwsgi"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration:
//
//	module = "uwsgi"
//	address = "unix:/run/uwsgi/app.sock"
//
// Instead of uWSGI the application is a few lines here, for one request.
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
		head := make([]byte, 4)
		if _, err := io.ReadFull(c, head); err != nil {
			log.Fatal(err)
		}
		vars := make([]byte, binary.LittleEndian.Uint16(head[1:]))
		if _, err := io.ReadFull(c, vars); err != nil {
			log.Fatal(err)
		}
		asked := strings.Contains(string(vars), "QUERY_STRING\x09\x00dish=soup")
		fmt.Fprintf(c, "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\nsoup: %v", asked)
	}()

	var r handlers.Registry
	uwsgi.Register(&r)
	m, _ := r.Module("uwsgi")
	settings := m.NewSettings().(*uwsgi.Settings)
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
