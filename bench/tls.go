package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// The certificate of all servers that speak TLS, below the root of all files.
const (
	certName = "cert.pem"
	keyName  = "key.pem"
)

// writeCert writes a certificate, with a key on the curve that most certificates have today.
func writeCert(root string) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-time.Hour),
		NotAfter: time.Now().Add(90 * 24 * time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	der := must(x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key))
	for name, block := range map[string]*pem.Block{certName: {Type: "CERTIFICATE", Bytes: der},
		keyName: {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))}} {
		check(os.WriteFile(filepath.Join(root, name), pem.EncodeToMemory(block), 0o644))
	}
}

// dialTLS shakes hands with the server, with TLS 1.3 and nothing kept from an earlier time.
func (j job) dialTLS() *tls.Conn {
	j.Addr = j.TLS
	conn := tls.Client(j.dial(), &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS13})
	check(conn.Handshake())
	return conn
}

// askTLS sends the work's request over TLS and fills buf with its answer.
func (j job) askTLS(conn *tls.Conn, request, buf []byte) {
	must(conn.Write(request))
	must(io.ReadFull(conn, buf))
	if string(buf[:len(goodStatus)]) != goodStatus || string(buf[len(buf)-len(hello):]) != hello {
		failf("over TLS: %.60q", buf)
	}
}

// openTLS opens connections, each of which has been used once.
func (j job) openTLS(n int) (conns []*tls.Conn) {
	request, buf := j.request(j.TLS), make([]byte, j.answerShape().size)
	for range n {
		conn := j.dialTLS()
		j.askTLS(conn, request, buf)
		conns = append(conns, conn)
	}
	return conns
}

// loadTLS is a closed loop over TLS: a goroutine for each connection, all in one thread's time. So
// the client costs more than that of other works, and the server has its CPU for itself.
func loadTLS(j job) figures {
	conns, ended := j.openTLS(j.Conns), make(chan error)
	request, size := j.request(j.TLS), j.answerShape().size
	var answers atomic.Int64
	var over atomic.Bool
	for _, conn := range conns {
		go func() {
			_, err := attempt(func(j job) bool {
				for buf := make([]byte, size); !over.Load(); answers.Add(1) {
					j.askTLS(conn, request, buf)
				}
				return true
			}, j)
			ended <- err
		}()
	}
	time.Sleep(j.Warmup)
	m, before := newMeter(j.Group), answers.Load()
	time.Sleep(j.Duration)
	f := m.figures(float64(answers.Load() - before))
	over.Store(true)
	for range conns {
		check(<-ended)
	}
	for _, conn := range conns {
		conn.NetConn().Close()
	}
	return f
}

// loadIdleTLS opens connections over TLS that are used once each and stay.
func loadIdleTLS(j job) figures {
	var conns []*tls.Conn
	f, _ := j.grow(func() {
		for _, conn := range j.openTLS(min(warmConns, j.Conns)) {
			conn.NetConn().Close()
		}
	}, func() { conns = j.openTLS(j.Conns) })
	request, buf := j.request(j.TLS), make([]byte, j.answerShape().size)
	for i := 0; i < j.Conns; i += aliveEvery {
		j.askTLS(conns[i], request, buf)
	}
	return f
}

// loadHandshakes shakes hands at a fixed rate, or as often as it can, on new connections. It leaves
// the CPU to the probe's client, which is what is measured, as far as that wants it.
func loadHandshakes(j job) figures {
	check(unix.Setpriority(unix.PRIO_PROCESS, 0, 19)) // this thread's, which does everything
	n, start := 0, time.Now()
	for ; time.Since(start) < j.Duration; n++ {
		time.Sleep(time.Duration(float64(n)/j.Rate*float64(time.Second)) - time.Since(start))
		j.dialTLS().NetConn().Close()
	}
	return figures{"handshakes": float64(n) / time.Since(start).Seconds()}
}

// measureHandshakes measures a probe alone, and then beside handshakes.
func (s *server) measureHandshakes(j job) figures {
	alone := s.measure(s.probe(j))
	f := s.measureBeside(j)
	f["alone99"], f["slowed99"] = alone["latency99"], f["latency99"]/alone["latency99"]
	return f
}
