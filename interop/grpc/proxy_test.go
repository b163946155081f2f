package grpc

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/interop"
	testgrpc "google.golang.org/grpc/interop/grpc_testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestProxy runs the cases through module proxy, against grpc-go's own server of HTTP/2.
func TestProxy(t *testing.T) {
	for name, opt := range map[string]grpc.ServerOption{
		"http":  grpc.EmptyServerOption{},
		"https": grpc.Creds(credentials.NewServerTLSFromCert(&modes.ServerTLS().Certificates[0])),
	} {
		t.Run(name, func(t *testing.T) {
			ln := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
			s := grpc.NewServer(opt)
			testgrpc.RegisterTestServiceServer(s, interop.NewTestServer())
			var running sync.WaitGroup
			running.Go(func() { _ = s.Serve(ln) })
			defer running.Wait()
			defer s.Stop()
			tls := ""
			if name == "https" {
				tls = "tls = { insecure = true }\n"
			}
			file := filepath.Join(t.TempDir(), "lwango.conf")
			must.Do(t, os.WriteFile(file, fmt.Appendf(nil, `[[site]]
[[site.route]]
prefix = "/"
module = "proxy"
address = "%s://%s"
version = "2"
request_buffering = false
%s`, name, ln.Addr(), tls), 0o600))
			r, stop := embedded.Start(t,
				lwango.Server{Addr: "127.0.0.1:0", TLS: modes.ServerTLS(), File: file})
			defer stop()
			// At its deadline the server resets the stream. The proxy answers that with 502, which may
			// come before the client's own deadline, and is then Unavailable.
			runCases(t, r.Addrs()[0], credentials.NewTLS(insecureTLS), "timeout_on_sleeping_server")
		})
	}
}
