package conn

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"testing"
	"unsafe"

	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestSlimTLS: crypto/tls has the buffers that are given up, and goes on without them. If it has
// them no more, see what an idle connection keeps now.
func TestSlimTLS(t *testing.T) {
	if len(tlsBuffers) != 2 {
		t.Fatalf("%d of 2 buffers are known", len(tlsBuffers))
	}
	kept := func(c *tls.Conn) (spare, size int) {
		for _, at := range tlsBuffers {
			b := (*bytes.Buffer)(unsafe.Add(unsafe.Pointer(c), at))
			spare, size = spare+b.Cap()-b.Len(), size+b.Cap()
		}
		return spare, size
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		a, b := net.Pipe()
		client := tls.Client(a, &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
		server := tls.Server(b, modes.ServerTLS())
		data := modes.Noise(100_000)
		failed := make(chan error, 1)
		go func() {
			for range 3 {
				if _, err := client.Write(data); err != nil {
					failed <- err
					return
				}
				if _, err := io.ReadFull(client, make([]byte, len(data))); err != nil {
					failed <- err
					return
				}
			}
			failed <- client.Close()
		}()
		must.Do(t, server.Handshake())
		for range 3 {
			if n, _ := kept(server); n == 0 {
				t.Errorf("%s: nothing to give up", tls.VersionName(version))
			}
			slimTLS(server, 0)
			if n, size := kept(server); n > size/8+64 { // sizes are rounded up
				t.Errorf("%s: still %d bytes to spare of %d", tls.VersionName(version), n, size)
			}
			got := make([]byte, len(data))
			if _, err := io.ReadFull(server, got); err != nil || !bytes.Equal(got, data) {
				t.Fatalf("%s: not what was sent, %v", tls.VersionName(version), err)
			}
			must.Get(server.Write(got))(t)
		}
		if _, err := server.Read(make([]byte, 1)); err != io.EOF {
			t.Error(err)
		}
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
}
