package placeholder_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/test/must"
)

// expand returns what text is for a request.
func expand(t *testing.T, text string, r *http.Request) string {
	t.Helper()
	value := must.Get(placeholder.Parse(text, placeholder.OfRoute))(t)
	w := httptest.NewRecorder()
	conn.ToHTTP(conn.Handler(func(req *conn.Request, resp *conn.Response) int {
		req.Layer().SetPrefix("/a b")
		req.Layer().SetUser("ann é%", "")
		resp.Write(placeholder.Append(nil, req, value))
		return 200
	})).ServeHTTP(w, r)
	return w.Body.String()
}

// TestPlaceholders: what each of them stands for.
func TestPlaceholders(t *testing.T) {
	c := &x509.Certificate{Raw: []byte("raw"), SerialNumber: big.NewInt(0xabc),
		Subject: pkix.Name{CommonName: "ann,\n%0A", Organization: []string{"Org"}},
		Issuer:  pkix.Name{CommonName: "ca"}}
	proved := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c},
		VerifiedChains: [][]*x509.Certificate{{c}}}
	shown := &tls.ConnectionState{PeerCertificates: []*x509.Certificate{c}}
	const certificate = "{cert_subject}|{cert_issuer}|{cert_serial}|{cert_fingerprint}"
	for _, tt := range []struct {
		text, host string
		tls        *tls.ConnectionState
		want       string
	}{
		{"{path} {rest} {prefix}", "a", nil, "/c%20d c%20d /a%20b"},
		{"<{uri}>{query} {method}", "a", nil, "</a%20b/c%20d?x=1>?x=1 GET"},
		{"{scheme} {host} {port}", "a.test:81", nil, "http a.test 81"},
		{"{scheme} {host} {port}", "a.test", nil, "http a.test 80"},
		{"{scheme} {host} {port}", "[::1]", proved, "https [::1] 443"},
		{"{address} {user}", "a", nil, "192.0.2.1 ann é%"},
		{`{"a": {1}} pa$$word`, "a", nil, `{"a": {1}} pa$$word`},
		{certificate, "a", proved, fmt.Sprintf("CN=ann\\,%%0A%%250A,O=Org|CN=ca|ABC|%x", sha256.Sum256(c.Raw))},
		{certificate, "a", shown, "|||"}, // nobody has verified it
		{certificate, "a", nil, "|||"},
	} {
		r := httptest.NewRequest("GET", "/a%20b/c%20d?x=1", nil)
		r.Host, r.TLS = tt.host, tt.tls
		if got := expand(t, tt.text, r); got != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got, tt.want)
		}
	}
	for text, want := range map[string]string{
		"{rest}": `"{rest}": unknown placeholder {rest} (known: {uri}, {query}, {host}, {port}, {scheme}, {method}, ` +
			`{address}, {id}, {user}, {cert_subject}, {cert_issuer}, {cert_serial}, {cert_fingerprint})`,
		"$remote_addr": `"$remote_addr": unknown placeholder $remote_addr (known: {uri}, {query}, {host}, {port}, ` +
			`{scheme}, {method}, {address}, {id}, {user}, {cert_subject}, {cert_issuer}, {cert_serial}, {cert_fingerprint})`,
	} {
		if _, err := placeholder.Parse(text, placeholder.Names); fmt.Sprint(err) != want {
			t.Errorf("%s: %v", text, err)
		}
	}
}
