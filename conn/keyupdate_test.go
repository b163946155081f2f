package conn_test

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/hkdf"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// TestKeyUpdateIsNoRequest: a client that changes its keys, and says nothing else, has begun no
// request, and gets no 408 but the end of an idle connection.
func TestKeyUpdateIsNoRequest(t *testing.T) {
	t.Parallel()
	s := start(t, overTLS, conn.Config{Handler: hello, HeaderTimeout: 100 * time.Millisecond})
	raw, err := net.Dial("tcp", s.Addr)
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	var secrets strings.Builder
	c := tls.Client(raw, &tls.Config{InsecureSkipVerify: true, KeyLogWriter: &secrets})
	if err := c.Handshake(); err != nil {
		t.Fatal(err)
	}
	if c.ConnectionState().CipherSuite != tls.TLS_AES_128_GCM_SHA256 {
		t.Skip("the processor has no AES")
	}
	s.Settle()
	if _, err := raw.Write(firstKeyUpdate(t, secrets.String())); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(c); len(got) > 0 || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// firstKeyUpdate is a client's KeyUpdate, which asks for none in return, as its first record behind
// the handshake (RFC 8446 sections 4.6.3, 5.2 and 7.1). secrets are what KeyLogWriter got.
func firstKeyUpdate(t *testing.T, secrets string) []byte {
	t.Helper()
	_, rest, _ := strings.Cut(secrets, "CLIENT_TRAFFIC_SECRET_0 ")
	secret, err := hex.DecodeString(strings.Fields(rest)[1])
	if err != nil {
		t.Fatal(err)
	}
	expand := func(label string, n int) []byte {
		label = "tls13 " + label
		out, err := hkdf.Expand(sha256.New, secret, string([]byte{0, byte(n), byte(len(label))})+label+"\x00", n)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	block, err := aes.NewCipher(expand("key", 16))
	if err != nil {
		t.Fatal(err)
	}
	aead, err := cipher.NewGCM(block)
	if err != nil {
		t.Fatal(err)
	}
	message := []byte{24, 0, 0, 1, 0, 22} // key_update, its length, update_not_requested; handshake
	head := []byte{23, 3, 3, 0, byte(len(message) + aead.Overhead())}
	return aead.Seal(head, expand("iv", 12), message, head)
}
