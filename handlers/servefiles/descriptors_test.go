package servefiles_test

import (
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/servefiles"
	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/internal/wire/http2"
)

// TestHTTP2FilesCount: a file that a client of HTTP/2 does not take counts among what its requests
// hold, until the stream ends. No other test takes anything meanwhile.
func TestHTTP2FilesCount(t *testing.T) {
	const many, included = 50, 2
	root := t.TempDir()
	must.Write(t, filepath.Join(root, "a.bin"), strings.Repeat("a", 1<<20))
	s := start(t, modes.HTTP2, root, "/", func(s *servefiles.Settings) { s.OpenFiles = 0 })
	c := must.Get(net.Dial("tcp", s.Addr))(t)
	defer c.Close()
	var block []byte
	for _, f := range [][2]string{{":method", "GET"}, {":scheme", "http"}, {":path", "/a.bin"},
		{":authority", "a"}} {
		block = http2.AppendField(block, f[0], f[1])
	}
	out := http2.AppendHeader([]byte(http2.Preface), http2.SettingsFrame, 0, 0, 6)
	out = http2.AppendSetting(out, http2.InitialWindowSize, 0)
	for i := range uint32(many) {
		out = http2.AppendHeader(out, http2.Headers, http2.EndHeaders|http2.EndStream, 2*i+1, len(block))
		out = append(out, block...)
	}
	must.Get(c.Write(out))(t)
	for answers := 0; answers < many; {
		var head [http2.FrameHeaderLen]byte
		must.Get(io.ReadFull(c, head[:]))(t)
		h := http2.ParseHeader(head[:])
		must.Get(io.CopyN(io.Discard, c, int64(h.Length)))(t)
		if h.Type == http2.Headers {
			answers++
		}
	}
	if n := openfiles.Process.Taken(); n != many-included {
		t.Errorf("%d descriptors are counted for %d files", n, many)
	}
	c.Close()
	wait.Until(t, "all is given back", func() bool { return openfiles.Process.Taken() == 0 })
}
