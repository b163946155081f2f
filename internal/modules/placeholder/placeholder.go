// Package placeholder has the placeholders, such as {address}, for parts of a request in configured
// values of header fields.
package placeholder

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// Names are the placeholders. OfRoute are those that depend on the route that the request has
// taken.
var (
	Names = []string{"uri", "query", "host", "port", "scheme", "method", "address", "id", "user",
		"cert_verify", "cert_subject", "cert_issuer", "cert_serial", "cert_fingerprint"}
	OfRoute = slices.Concat([]string{"path", "rest", "prefix"}, Names)
)

// Parse reads a value of a header field with placeholders of these names. It refuses a variable of
// nginx, which would go out as it stands.
func Parse(text string, names []string) (template.Text, error) {
	t, err := template.Parse(text, names)
	if variable := template.Variable(text); err == nil && variable != "" {
		err = fmt.Errorf("%q: unknown placeholder %s (known: %s)", text, variable, template.List(names))
	}
	return t, err
}

// Append appends the text with the parts of the request in it. A path is as it goes on to an
// upstream (conn.RequestLayer.SentPathView), and not decoded: so it says which one it is, and may
// stand in a field. The thread of the request calls it.
func Append(out []byte, req *conn.Request, text template.Text) []byte {
	for _, p := range text {
		switch p.Name {
		case "":
			out = append(out, p.Text...)
		case "path":
			out = appendBelow(out, req, true)
		case "rest":
			out = appendBelow(out, req, false)
		case "prefix":
			out = http1.AppendPath(out, []byte(strings.TrimSuffix(req.Prefix(), "/")))
		case "uri":
			out = req.Layer().AppendTarget(out)
		case "query":
			out = AppendQuery(out, req)
		case "host":
			name, _ := http1.SplitPort(req.Host())
			out = append(out, name...)
		case "port":
			out = AppendPort(out, req)
		case "scheme":
			out = append(out, Scheme(req)...)
		case "method":
			out = append(out, req.Method()...)
		case "address":
			out = appendAddress(out, req)
		case "id":
			out = append(out, req.Layer().IDView()...)
		case "user":
			out = append(out, req.User()...) // without controls, see SetUser
		default:
			out = appendCertificate(out, req, p.Name)
		}
	}
	return out
}

// Source returns the parts of a request for an address or a target (template.Template).
func Source(req *conn.Request) *template.Source {
	l := req.Layer()
	_, query, asks := bytes.Cut(l.AppendTarget(nil), []byte{'?'})
	return &template.Source{
		Host:  req.Host(),
		Path:  template.Part{Text: req.Path(), Sent: string(l.SentPathView())},
		Below: template.Part{Text: req.SubPath(), Sent: string(appendBelow(nil, req, true))},
		Query: string(query),
		Asks:  asks,
	}
}

// AppendQuery appends the query with its question mark, or nothing if there is none.
func AppendQuery(out []byte, req *conn.Request) []byte {
	if q := req.RawQuery(); q != "" {
		out = append(append(out, '?'), q...)
	}
	return out
}

// Scheme returns the scheme that the client uses.
func Scheme(req *conn.Request) string {
	if req.Secure() {
		return "https"
	}
	return "http"
}

// AppendPort appends the port that the client has asked for: the one in Host, else that of the
// scheme.
func AppendPort(out []byte, req *conn.Request) []byte {
	_, port := http1.SplitPort(req.Host())
	switch {
	case port != "":
		return append(out, port...)
	case req.Host() == "" && req.LocalAddr().IsValid(): // HTTP/1.0
		return strconv.AppendInt(out, int64(req.LocalAddr().Port()), 10)
	case req.Secure():
		return append(out, "443"...)
	}
	return append(out, "80"...)
}

// appendBelow appends what follows the route's prefix, with the slash in front or without it.
func appendBelow(out []byte, req *conn.Request, slash bool) []byte {
	from := len(out)
	if out = req.Layer().AppendSubPath(out); len(out) == from {
		out = append(out, '/')
	}
	if !slash {
		out = slices.Delete(out, from, from+1)
	}
	return out
}

// appendAddress appends the client's address, "unix:" if it has none.
func appendAddress(out []byte, req *conn.Request) []byte {
	if a := req.RemoteAddr().Addr(); a.IsValid() {
		return a.Unmap().WithZone("").AppendTo(out)
	}
	return append(out, "unix:"...)
}

// appendCertificate appends a part of the client's certificate, or nothing without one. The names
// and the number are those of a verified certificate; the fingerprint is of any.
func appendCertificate(out []byte, req *conn.Request, name string) []byte {
	verify := req.Layer().ClientVerify()
	if name == "cert_verify" {
		return append(out, verify...)
	}
	c := req.Layer().ClientCertificate()
	switch {
	case c == nil:
	case name == "cert_fingerprint":
		return AppendFingerprint(out, c)
	case verify != "SUCCESS":
	case name == "cert_subject":
		return appendVisible(out, c.Subject.String())
	case name == "cert_issuer":
		return appendVisible(out, c.Issuer.String())
	case name == "cert_serial":
		return append(out, serial(c)...)
	}
	return out
}

// Certificate is the client's certificate in the words of placeholders.
type Certificate struct {
	Verify, Subject, Issuer, Serial, Fingerprint string
}

// CertificateOf returns all placeholders of the client's certificate; nil if the client was not
// asked for one.
func CertificateOf(req *conn.Request) *Certificate {
	verify := req.Layer().ClientVerify()
	if verify == "" {
		return nil
	}
	of := func(name string) string { return string(appendCertificate(nil, req, name)) }
	return &Certificate{verify, of("cert_subject"), of("cert_issuer"), of("cert_serial"),
		of("cert_fingerprint")}
}

// AppendFingerprint appends the SHA-256 of a certificate, hexadecimal.
func AppendFingerprint(out []byte, c *x509.Certificate) []byte {
	sum := sha256.Sum256(c.Raw)
	return hex.AppendEncode(out, sum[:])
}

func serial(c *x509.Certificate) string {
	if c.SerialNumber == nil {
		return ""
	}
	return strings.ToUpper(c.SerialNumber.Text(16))
}

// appendVisible appends a name of which anybody may have chosen the characters. Controls, which
// cannot be part of a field, are encoded as in an address, and so is the percent sign.
func appendVisible(out []byte, s string) []byte {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c == 0x7f || c == '%' {
			out = fmt.Appendf(out, "%%%02X", c)
		} else {
			out = append(out, c)
		}
	}
	return out
}
