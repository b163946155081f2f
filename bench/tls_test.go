package main

import (
	"crypto/tls"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What the clients over TLS ask for comes back, and a wrong answer is noticed.
func TestTLS(t *testing.T) {
	root := t.TempDir()
	writeCert(root)
	cert := must(tls.LoadX509KeyPair(filepath.Join(root, certName), filepath.Join(root, keyName)))
	for text, good := range map[string]bool{hello: true, "Hello, there!": false} {
		secure := tls.NewListener(must(net.Listen("tcp", "127.0.0.1:0")), &tls.Config{Certificates: []tls.Certificate{cert}})
		t.Cleanup(func() { secure.Close() })
		go http.Serve(secure, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Server", "test")
			w.Write([]byte(text))
		}))
		addr := startHandler(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Server", "test")
			w.Write([]byte(hello))
		}))
		j := jobAt(addr, 2, 1, 100, 100*time.Millisecond)
		j.TLS = secure.Addr().String()
		for kind, load := range map[string]func(job) figures{"tls": loadTLS, "idletls": loadIdleTLS} {
			_, err := attempt(load, j)
			if good && err != nil || !good && (err == nil || !strings.Contains(err.Error(), "over TLS")) {
				t.Errorf("%s, %q: %v", kind, text, err)
			}
		}
	}
}
