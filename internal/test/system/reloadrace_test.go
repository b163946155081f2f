package system_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/internal/test/embedded"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestReloadBesideReaders: the status page, a purge and what else looks at a server from outside
// may come during a reload. The race detector judges.
func TestReloadBesideReaders(t *testing.T) {
	dir := t.TempDir()
	file, debug := filepath.Join(dir, "x.conf"), filepath.Join(dir, "d")
	text := func(i int) string {
		return fmt.Sprintf(
			"[debug]\naddress = \"unix:%s\"\n[[site]]\n[[site.route]]\nprefix = \"/status\"\nmodule = "+
				"\"status\"\n"+
				"[[site.route]]\nprefix = \"/kept\"\nmodule = \"response\"\nbody = \"%d\"\ncache = true\n"+
				"[[site.route]]\nprefix = \"/up\"\nmodule = \"proxy\"\naddress = \"127.0.0.1:%d\"\n", debug, i,
			1+i)
	}
	must.Write(t, file, text(0))
	s := lwango.Server{Addr: "127.0.0.1:0", File: file, Handler: embedded.Says("code")}
	r, _ := embedded.Start(t, s)
	at := r.Addrs()[0]
	client := &http.Client{Timeout: wait.Patience, Transport: &http.Transport{DisableKeepAlives: true,
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			if strings.HasPrefix(address, "localhost:") {
				network, address = "unix", debug
			}
			return new(net.Dialer).DialContext(ctx, network, address)
		}}}
	over := make(chan bool)
	var looking sync.WaitGroup
	for _, ask := range []func() (*http.Response, error){
		func() (*http.Response, error) { return client.Get("http://" + at + "/status/json") },
		func() (*http.Response, error) { return client.Get("http://" + at + "/kept") },
		func() (*http.Response, error) { return client.Get("http://localhost/debug/upstreams") },
		func() (*http.Response, error) {
			return client.Post("http://localhost/debug/cache/purge", "application/json",
				strings.NewReader(`{"all":true}`))
		},
	} {
		looking.Go(func() {
			for {
				resp, err := ask()
				if err != nil {
					t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Error(resp.Status)
				}
				select {
				case <-over:
					return
				default:
				}
			}
		})
	}
	looking.Go(func() {
		for i := range 20 {
			must.Write(t, file, text(i))
			if err := r.Reload(s); err != nil {
				t.Error(err)
			}
		}
		close(over)
	})
	looking.Wait()
}
