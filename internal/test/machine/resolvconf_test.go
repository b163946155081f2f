package machine_test

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
)

// nameService answers every question for an IPv4 address with 127.0.0.1, at port 53 of an address
// of this machine, until the test ends.
func nameService(t *testing.T, address string) {
	t.Helper()
	c := must.Get(net.ListenPacket("udp4", net.JoinHostPort(address, "53")))(t)
	t.Cleanup(func() { c.Close() })
	go func() {
		q := make([]byte, 1500)
		for {
			n, from, err := c.ReadFrom(q)
			if err != nil {
				return
			}
			end := 12 + strings.IndexByte(string(q[12:n]), 0) + 5 // of the question
			reply := append([]byte{q[0], q[1], 0x81, 0x80, 0, 1, 0, 0, 0, 0, 0, 0}, q[12:end]...)
			if q[end-4] == 0 && q[end-3] == 1 { // of type A
				reply[7] = 1
				reply = append(reply, 0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 60, 0, 4, 127, 0, 0, 1)
			}
			_, _ = c.WriteTo(reply, from)
		}
	}()
}

// TestConfinedFindsNames: names are found by the name service of a resolv.conf that was renamed
// into its place while the server runs, and into that of a file to which it is a link. The server
// has not looked a name up before that: then the standard library would look at the file again
// after five seconds only.
func TestConfinedFindsNames(t *testing.T) {
	ci.Root(t)
	for name, test := range map[string]struct{ file, net string }{
		"file": {"etc/resolv.conf", "127.81.0."},
		"link": {"run/resolver/resolv.conf", "127.82.0."},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			upstream := httptest.NewServer(http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "found") }))
			defer upstream.Close()
			port := upstream.Listener.Addr().(*net.TCPAddr).Port
			j := newJail(t)
			j.root = true // with an etc of its own
			if test.file != "etc/resolv.conf" {
				must.Do(t, os.Mkdir(j.in("run/resolver"), 0o755))
				must.Do(t, os.Symlink("../"+test.file, j.in("etc/resolv.conf")))
			}
			j.write(test.file, "nameserver "+test.net+"1\n")
			text := "[confine]\nuser = \"65534\"\ngroup = \"65534\"\n" +
				"[[listener]]\naddress = \"127.0.0.1:0\"\n[[site]]\n" +
				"[[site.route]]\nprefix = \"/\"\nmodule = \"proxy\"\n" +
				fmt.Sprintf("address = \"one.test:%d\"\n", port)
			j.write("etc/lwango.conf", text)
			address := j.start(1)[0]
			nameService(t, test.net+"2")
			j.write(test.file+".new", "nameserver "+test.net+"2\n")
			must.Do(t, os.Rename(j.in(test.file+".new"), j.in(test.file)))
			answer := must.Get(http.Get("http://" + address))(t)
			answer.Body.Close()
			if answer.StatusCode != 200 {
				t.Error(answer.Status)
			}
		})
	}
}
