package placeholder_test

import (
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509/pkix"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/leak"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

func TestMain(m *testing.M) { leak.Main(m) }

var texts *placeholder.Maps // none

// expanding answers with what the text in the field Text is for the request.
func expanding(req *conn.Request, resp *conn.Response) int {
	text, err := texts.Parse(req.Header().Get("Text"))
	if err != nil {
		return resp.Error(500, err)
	}
	req.Layer().SetPrefix("/a b")
	req.Layer().SetUser("ann é%", "")
	resp.Write(placeholder.Append(nil, req, text))
	return 200
}

// TestPlaceholders: what each of them stands for.
func TestPlaceholders(t *testing.T) {
	ca := certs.New(t)
	ann := ca.IssueTo(pkix.Name{CommonName: "ann,\n%0A", Organization: []string{"Org"}}, time.Hour)
	s := server.Start(t, modes.Direct, conn.Config{Handler: expanding})
	verifying, asking := modes.ServerTLS().Clone(), modes.ServerTLS().Clone()
	verifying.ClientAuth, verifying.ClientCAs = tls.VerifyClientCertIfGiven, ca.Pool
	asking.ClientAuth = tls.RequireAnyClientCert
	plain := s.Dial
	over := func(addr string, own ...tls.Certificate) func() *server.Client {
		return func() *server.Client {
			c := tls.Client(must.Dial(t, "tcp", addr),
				&tls.Config{InsecureSkipVerify: true, Certificates: own})
			t.Cleanup(func() { c.Close() })
			_ = c.SetDeadline(time.Now().Add(wait.Patience))
			return server.NewClient(t, c)
		}
	}
	verifies := s.AddTLS(verifying)
	proved, nobody, shown := over(verifies, ann), over(verifies), over(s.AddTLS(asking), ann)
	const certificate = "{cert_subject}|{cert_issuer}|{cert_serial}|{cert_fingerprint}"
	leaf := certs.Leaf(ann)
	for _, tt := range []struct {
		text, host string
		dial       func() *server.Client
		want       string
	}{
		{"{path} {rest} {prefix}", "a", plain, "/c%20d c%20d /a%20b"},
		{"<{uri}>{query} {method}", "a", plain, "</a%20b/c%20d?x=1>?x=1 GET"},
		{"{scheme} {host} {port}", "a.test:81", plain, "http a.test 81"},
		{"{scheme} {host} {port}", "a.test", plain, "http a.test 80"},
		{"{scheme} {host} {port}", "[::1]", nobody, "https [::1] 443"},
		{"{address} {user}", "a", plain, "127.0.0.1 ann é%"},
		{`{"a": {1}} pa$$word`, "a", plain, `{"a": {1}} pa$$word`},
		{"{field.text}|{field.none}|{query.x}|{query.y}", "a", plain,
			"{field.text}|{field.none}|{query.x}|{query.y}||1|"},
		{certificate, "a", proved, fmt.Sprintf("CN=ann\\,%%0A%%250A,O=Org|CN=test authority|%X|%x",
			leaf.SerialNumber, sha256.Sum256(leaf.Raw))},
		{certificate, "a", shown, fmt.Sprintf("|||%x", sha256.Sum256(leaf.Raw))}, // nobody has verified it
		{"{cert_verify}", "a", shown, "FAILED:not verified"},
		{"{cert_verify}", "a", proved, "SUCCESS"},
		{"{cert_verify}", "a", nobody, ""},
		{certificate, "a", nobody, "|||"},
		{certificate, "a", plain, "|||"},
	} {
		got := tt.dial().Do("GET",
			"GET /a%20b/c%20d?x=1 HTTP/1.1\r\nHost: "+tt.host+"\r\nText: "+tt.text+"\r\n\r\n")
		if got.Text != tt.want {
			t.Errorf("%s: %q, want %q", tt.text, got.Text, tt.want)
		}
	}
	for text, want := range map[string]string{
		"{nothing}":    `"{nothing}": unknown placeholder {nothing} (known: {uri}, {query}, `,
		"{field.}":     `unknown placeholder {field.}`,
		"$remote_addr": `"$remote_addr": unknown placeholder $remote_addr (known: {uri}, `,
	} {
		if _, err := texts.Parse(text); !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("%s: %v", text, err)
		}
	}
}
