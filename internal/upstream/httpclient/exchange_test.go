package httpclient_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/upstream/httpclient"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/stream"
)

// fetch sends a request with a chunked body on s and reads the answer.
func fetch(req *conn.Request, x *httpclient.Exchange, s *stream.Conn,
	body io.Reader) (string, error) {
	x.Begin(s, s, "POST")
	defer x.End()
	if _, err := x.Write(
		[]byte("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n")); err != nil {
		return "", err
	}
	var got strings.Builder
	buf, out, sent := make([]byte, 8<<10), make([]byte, 0, 16<<10), false
	for {
		for x.Held() == 0 && !sent {
			piece, err := http1.AppendPiece(out, body.Read, true)
			if err == io.EOF {
				piece, sent = http1.AppendEnd(piece, func(field func(_, _ string)) { field("T", "u") }), true
			}
			if _, err := x.Write(piece); err != nil {
				return "", err
			}
		}
		if _, err := x.SendHeld(); err != nil {
			return "", err
		}
		err := x.Receive(buf)
		if err == stream.ErrWouldBlock {
			if x.Held() == 0 && !sent { // what was held has gone out meanwhile
				continue
			}
			err = x.Await(time.Minute)
			if err == nil {
				continue
			}
		}
		if err != nil {
			return "", err
		}
		for e := httpclient.Interim; e != httpclient.More; {
			var data []byte
			if e, data, err = x.Next(); err != nil {
				return "", err
			}
			switch e {
			case httpclient.Final:
				fmt.Fprint(&got, x.Head.Status, " ")
			case httpclient.Data:
				got.Write(data)
			case httpclient.Done:
				x.Trailer(func(name, value []byte) { fmt.Fprintf(&got, " %s:%s", name, value) })
				if !x.Reusable() {
					got.WriteString(" not reusable")
				}
				return got.String(), nil
			}
		}
	}
}

// TestExchange: a handler asks a server of net/http twice on one connection, with bodies that are
// larger than all buffers and come back while they are sent.
func TestExchange(t *testing.T) {
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).EnableFullDuplex()
		w.Header().Set("Trailer", "U")
		io.Copy(w, r.Body)
		w.Header().Set("U", r.Trailer.Get("T"))
	}))
	defer origin.Close()
	text := strings.Repeat("0123456789", 400_000)
	s := server.Start(t, modes.Direct,
		conn.Config{Handler: func(req *conn.Request, w *conn.Response) int {
			st, err := stream.Dial(req.Thread, time.Minute, "tcp", origin.Listener.Addr().String())
			if err != nil {
				t.Error(err)
				return 500
			}
			defer st.Close()
			var x httpclient.Exchange
			x.KeepTrailer = true
			for _, body := range []string{text, "short", ""} {
				got, err := fetch(req, &x, st, strings.NewReader(body))
				if want := "200 " + body + " U:"; err != nil || !strings.HasPrefix(got, want) ||
					strings.Contains(got, "not reusable") {
					t.Errorf("%d bytes: %d, %v, %q", len(body), len(got), err, got[max(0, len(got)-40):])
				}
			}
			return 200
		}})
	if a := s.Request("GET /", nil, ""); a.StatusCode != 200 {
		t.Error(a.Status)
	}
}
