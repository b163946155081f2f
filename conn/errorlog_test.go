package conn_test

import (
	"crypto/tls"
	"errors"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/wait"
	"github.com/lwango/lwango/loop"
)

// TestErrorOfGetCertificate: what the program's own function says of a handshake is logged, and
// what clients do wrong is not.
func TestErrorOfGetCertificate(t *testing.T) {
	t.Parallel()
	s := start(t, direct, conn.Config{Handler: hello})
	addr := s.AddTLS(&tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
		return nil, errors.New("the vault is sealed")
	}})
	for _, version := range []uint16{tls.VersionTLS11, tls.VersionTLS13} { // the first is too old
		c := tls.Client(dial(t, addr), &tls.Config{InsecureSkipVerify: true, MaxVersion: version})
		if c.Handshake() == nil {
			t.Error("no error")
		}
		c.Close()
	}
	wait.Until(t, "no connection left", func() bool { return s.Active() == 0 })
	if log := s.Log.String(); strings.Count(log, "level=WARN") != 1 || !strings.Contains(log,
		`level=WARN msg="conn: a function of the tls.Config has refused a handshake"`) ||
		!strings.Contains(log, `error="the vault is sealed"`) {
		t.Errorf("log: %s", log)
	}
}

// TestPanicOfAThread: the log has the stack of a thread that a handler has started, whoever takes
// its error.
func TestPanicOfAThread(t *testing.T) {
	t.Parallel()
	for name, join := range map[string]bool{"left": false, "taken": true} {
		t.Run(name, func(t *testing.T) {
			s := start(t, direct, conn.Config{
				Handler: func(req *conn.Request, resp *conn.Response) int {
					req.Go(func(*loop.Thread) error { panic("at the disco") })
					if join {
						return resp.Error(502, req.Join())
					}
					return 200
				},
			})
			if a := s.Request("GET /", nil, ""); a.StatusCode < 500 {
				t.Error(a.Status)
			}
			if log := s.Log.String(); !strings.Contains(log, "at the disco") ||
				!strings.Contains(log, `stack="goroutine `) || !strings.Contains(log, "errorlog_test.go:") {
				t.Errorf("log: %s", log)
			}
		})
	}
}
