package conn_test

import (
	"crypto/tls"
	"net"
	"syscall"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/must"
)

// BenchmarkHandshake is a new connection with a full handshake and its end, both sides of it.
func BenchmarkHandshake(b *testing.B) {
	s := start(b, overTLS, conn.Config{Handler: hello})
	config := &tls.Config{InsecureSkipVerify: true, CurvePreferences: []tls.CurveID{tls.X25519}}
	var before, after syscall.Rusage
	_ = syscall.Getrusage(0, &before)
	for b.Loop() {
		c := must.Get(net.Dial("tcp", s.Addr))(b)
		must.Do(b, tls.Client(c, config).Handshake())
		c.Close()
	}
	_ = syscall.Getrusage(0, &after)
	cpu := func(r *syscall.Rusage) float64 { return float64(r.Utime.Nano() + r.Stime.Nano()) }
	b.ReportMetric((cpu(&after)-cpu(&before))/1e3/float64(b.N), "cpu-µs/op")
}
