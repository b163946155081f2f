package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// The servers' certificate, an ECDSA one over P-256, and its key, in the folder of all files.
const certFile, keyFile = "cert.pem", "key.pem"

func writeCertificate(dir string) {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	about := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "bench"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(0, 1, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	cert := must(x509.CreateCertificate(rand.Reader, about, about, key.Public(), key))
	for name, block := range map[string]*pem.Block{
		certFile: {Type: "CERTIFICATE", Bytes: cert},
		keyFile:  {Type: "PRIVATE KEY", Bytes: must(x509.MarshalPKCS8PrivateKey(key))},
	} {
		check(os.WriteFile(filepath.Join(dir, name), pem.EncodeToMemory(block), 0o644))
	}
}

// A tlsClient has connections over TLS 1.3, of which each has a goroutine: crypto/tls waits. What
// it costs is not judged.
type tlsClient struct {
	job
	config *tls.Config
	text   []byte // of a request
	size   int    // of an answer
}

// trust is what makes a connection trust the servers' certificate. Without a cache of sessions
// every handshake is a full one. Without the hybrid of ML-KEM, which not every OpenSSL has, all
// servers exchange keys in the same way.
func (j job) trust() *tls.Config {
	roots := x509.NewCertPool()
	if !roots.AppendCertsFromPEM(must(os.ReadFile(filepath.Join(j.Root, certFile)))) {
		failf("no certificate in %s", certFile)
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS13, ServerName: "127.0.0.1",
		CurvePreferences: []tls.CurveID{tls.X25519}}
}

func newTLSClient(j job) *tlsClient {
	c := &tlsClient{job: j, text: j.request(j.Addr), config: j.trust()}
	conn := c.open()
	defer conn.Close()
	c.size = j.exchange(conn).size
	return c
}

// open is a connection whose handshake is done.
func (c *tlsClient) open() *tls.Conn {
	conn := tls.Client(c.dial(), c.config)
	check(conn.Handshake())
	return conn
}

// use asks for the work's path and reads the answer.
func (c *tlsClient) use(conn *tls.Conn, answer []byte) {
	must(conn.Write(c.text))
	must(io.ReadFull(conn, answer[:c.size]))
	if !bytes.HasPrefix(answer, []byte(goodStatus)) {
		failf("an answer begins with %.40q", answer)
	}
}

// each calls f for each connection, all at once, and returns when all have returned.
func (c *tlsClient) each(f func(i int)) {
	ended := make(chan error)
	for i := range c.Conns {
		go func() {
			_, err := attempt(func(i int) (none struct{}) { f(i); return }, i)
			ended <- err
		}()
	}
	for range c.Conns {
		check(<-ended)
	}
}

// loadTLS asks on each connection as fast as the server answers.
func loadTLS(j job) figures {
	c := newTLSClient(j)
	conns := make([]*tls.Conn, j.Conns)
	for i := range conns {
		conns[i] = c.open()
		defer conns[i].Close()
	}
	answers := 0 // one thread does everything
	during := func(d time.Duration) {
		end := time.Now().Add(d)
		c.each(func(i int) {
			for answer := make([]byte, c.size); time.Now().Before(end); answers++ {
				c.use(conns[i], answer)
			}
		})
	}
	during(j.Warmup)
	answers = 0
	m := newMeter(j.Group)
	during(j.Duration)
	return m.figures(float64(answers))
}

// loadTLSIdle opens connections that are used once each and stay.
func loadTLSIdle(j job) figures {
	c := newTLSClient(j)
	answer := make([]byte, c.size)
	return idle(j, c.open, func(conn *tls.Conn) { c.use(conn, answer) }, closeBelow)
}

// closeBelow closes without a goodbye.
func closeBelow(conn *tls.Conn) { conn.NetConn().Close() }

// loadHandshakes opens connections at a fixed rate, and uses each once. One that is due while all
// that may be under way are taken follows as soon as one is not.
func loadHandshakes(j job) figures {
	c := newTLSClient(j)
	every := time.Duration(float64(time.Second) / j.Rate)
	done, next, start := 0, 0, time.Now() // one thread does everything
	c.each(func(int) {
		for answer := make([]byte, c.size); ; {
			due := every * time.Duration(next)
			if due >= j.Duration {
				return
			}
			next++
			time.Sleep(due - time.Since(start))
			conn := c.open()
			c.use(conn, answer)
			conn.NetConn().Close()
			done++
		}
	})
	took := time.Since(start)
	if want := int(j.Duration / every); done < want {
		failf("%d handshakes in %v, want %d", done, took, want)
	}
	return figures{"handshakes": float64(done) / took.Seconds()}
}

// CertFile is the certificate's.
func (s *server) CertFile() string { return filepath.Join(s.Root, certFile) }

// KeyFile is the certificate's key.
func (s *server) KeyFile() string { return filepath.Join(s.Root, keyFile) }
