package proxy_test

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/proxy"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/wire/http2"
)

var streamNumber = regexp.MustCompile("ID [0-9]+")

// TestHTTP2Reset: the code with which an upstream resets a stream reaches a client of gRPC, whose
// library reads it: CANCEL behind its deadline is that. Another client gets 502 as long as it has
// no byte. What a code says of a connection is not passed on.
func TestHTTP2Reset(t *testing.T) {
	for _, begun := range []bool{false, true} {
		for _, code := range []http2.Code{http2.Cancel, http2.EnhanceYourCalm, http2.NoError,
			http2.RefusedStream, http2.HTTP11Required} {
			got := make(chan bool, 1)
			o := start(t, func(p *originConn) {
				hello2(p)
				for id := await2(p, http2.Headers); id != 0; id = await2(p, http2.Headers) {
					if begun {
						_, _ = p.Write(append(head2(id), data2(0, id, "hello")...))
						<-got // by the client
					}
					_, _ = p.Write(http2.AppendReset(nil, id, code))
				}
			})
			f := serve(t, modes.Direct, "/", []string{o.addr}, func(s *proxy.Settings) {
				version2(s)
				s.Retry = []string{}
			})
			log := lines{make(chan string, 100)}
			f.Server = server.Start(t, modes.HTTP2, conn.Config{Handler: f.handler, AccessLog: log})
			tr := &http.Transport{Protocols: new(http.Protocols)}
			tr.Protocols.SetUnencryptedHTTP2(true)
			for _, kind := range []string{"application/grpc+proto", "text/plain"} {
				req := must.Get(http.NewRequest("POST", "http://"+f.Addr+"/a.b/c", strings.NewReader("x")))(t)
				req.Header.Set("Content-Type", kind)
				resp, err := tr.RoundTrip(req)
				what := ""
				if err == nil {
					what = fmt.Sprint(resp.StatusCode)
					if begun {
						_, _ = io.ReadFull(resp.Body, make([]byte, 5))
						got <- true
					}
					_, err = io.ReadAll(resp.Body)
					resp.Body.Close()
				}
				passed := kind != "text/plain" && (code == http2.Cancel || code == http2.EnhanceYourCalm)
				want := "502 <nil>"
				switch {
				case passed && !begun:
					want = "stream error: stream ID; " + code.String()
				case passed:
					want = "200 stream error: stream ID; " + code.String()
				case begun:
					want = "200 stream error: stream ID; INTERNAL_ERROR"
				}
				if what = strings.TrimSpace(what + " " +
					streamNumber.ReplaceAllString(fmt.Sprint(err), "ID")); !strings.HasPrefix(what, want) {
					t.Errorf("begun %t, %v, %s: %s, want %s", begun, code, kind, what, want)
				}
				if line, want := <-log.entries, fmt.Sprintf("upstream %q", o.addr); !strings.Contains(line,
					want) ||
					strings.HasPrefix(line, "502 ") == begun {
					t.Error(line)
				}
			}
			tr.CloseIdleConnections()
		}
	}
}
