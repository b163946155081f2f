// Package placeholder is the language of the texts of a configuration that have parts of a request
// in them, such as {address}, or a value that a [[map]] finds for it. A route's texts are parsed by
// the Maps of its server (around.Context), and appended on the thread of a request.
//
//	placeholder.go  the names; Append
//	text.go         Text: parsing, what a text reads
//	maps.go         Maps: the tables [[map]]
//	lookup.go       finding the value of a map
//	address.go      Address: texts that are an address or a target
package placeholder

import (
	"bytes"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/wire/http1"
)

// Names are the placeholders that every text has, besides those of [[map]]. A name that ends at a
// star stands for all that begin so.
var Names = []string{"uri", "query", "path", "rest", "prefix", "host", "port", "scheme", "method",
	"address", "id", "user", "cert_verify", "cert_subject", "cert_issuer", "cert_serial",
	"cert_fingerprint", "field.*", "cookie.*", "query.*"}

// Asked is the request that a text is for: a conn.RequestLayer, or one that is only thought of,
// which has no id, no user and no certificate.
type Asked interface {
	Method() string
	SentPathView() []byte
	QueryView() []byte
	AppendQuery(dst []byte) []byte
	HostView() []byte
	HeaderViewFrom(name string, from int) (value []byte, next int)
	RemoteAddr() netip.AddrPort
	Secure() bool
	Prefix() string
}

// Append appends the text with the parts of the request in it. No control character comes out of a
// part, so each may stand in a field. A path is as it goes on to an upstream
// (conn.RequestLayer.SentPathView), and not decoded: so it says which one it is. The thread of the
// request calls it.
func Append(out []byte, req *conn.Request, text Text) []byte {
	return text.append(out, req.Layer(), nil)
}

// Expand is Append for a request that is only thought of.
func Expand(text Text, q Asked) string { return string(text.append(nil, q, nil)) }

// AppendGroups is Append for a Text with the groups of an expression, which have matched these.
func AppendGroups(out []byte, req *conn.Request, text Text, groups [][]byte) []byte {
	return text.append(out, req.Layer(), groups)
}

// AppendKey appends what the requests of one client, or for one thing, have in common: the parts
// with a NUL between them. Instead of the client's address there is that of network, of all whose
// addresses count as one, and {host} is in small letters. some reports whether any placeholder
// stands for something.
func AppendKey(out []byte, req *conn.Request, text Text, network func(netip.Addr) netip.Addr) (
	_ []byte, some bool) {
	for i := range text {
		if i > 0 {
			out = append(out, 0)
		}
		p, from := &text[i], len(out)
		switch {
		case p.kind == kindAddress:
			if a := network(req.RemoteAddr().Addr()); a.IsValid() {
				client := a.As16()
				out = append(out, client[:]...)
			}
		default:
			out = text[i:i+1].append(out, req.Layer(), nil)
			if p.kind == kindHost {
				lower(out[from:])
			}
		}
		some = some || p.Name != "" && len(out) > from
	}
	return out, some
}

// append appends the text; groups are what an expression has matched, for a Text with groups.
func (t Text) append(out []byte, q Asked, groups [][]byte) []byte {
	for i := range t {
		switch p := &t[i]; {
		case p.Name == "":
			out = append(out, p.Text...)
		case p.group > 0:
			if p.group <= len(groups) {
				out = append(out, groups[p.group-1]...)
			}
		case p.m != nil:
			room := rooms.Get().(*[]byte)
			*room = p.m.lookup((*room)[:0], q)
			out = append(out, *room...)
			rooms.Put(room)
		default:
			out = p.appendPart(out, q)
		}
	}
	return out
}

// rooms are for the values of maps: what a map is given to append to, expressions may keep, and out
// may be on the stack of a caller.
var rooms = sync.Pool{New: func() any { return new([]byte) }}

// appendPart appends the part of the request that the piece stands for. (Calls by q get nothing of
// out: it may be on the stack of a caller.)
func (p *Piece) appendPart(out []byte, q Asked) []byte {
	req, real := q.(conn.RequestLayer)
	switch p.kind {
	case kindPath:
		return appendBelow(out, q, true)
	case kindRest:
		return appendBelow(out, q, false)
	case kindPrefix:
		return http1.AppendPath(out, []byte(strings.TrimSuffix(q.Prefix(), "/")))
	case kindURI:
		if real {
			return req.AppendTarget(out)
		}
		return append(append(out, q.SentPathView()...), q.AppendQuery(nil)...)
	case kindQuery:
		if query := q.QueryView(); len(query) > 0 {
			out = append(append(out, '?'), query...)
		}
	case kindHost:
		return append(out, withoutPort(q.HostView())...)
	case kindPort:
		return appendPort(out, q)
	case kindScheme:
		return append(out, schemeOf(q)...)
	case kindMethod:
		return append(out, q.Method()...)
	case kindAddress:
		return appendAddress(out, q)
	case kindField:
		return appendField(out, q, p.of)
	case kindCookie:
		value, _ := cookie(q, p.of)
		return append(out, value...)
	case kindParameter:
		return appendParameter(out, q.QueryView(), p.of)
	case kindID:
		if real {
			return append(out, req.IDView()...)
		}
	case kindUser:
		if real {
			return append(out, req.User()...) // without controls, see SetUser
		}
	default:
		if real {
			return appendCertificate(out, req.Request, p.Name)
		}
	}
	return out
}

// kind is which placeholder a piece is.
type kind uint8

const (
	kindOther kind = iota // of the client's certificate
	kindPath
	kindRest
	kindPrefix
	kindURI
	kindQuery
	kindHost
	kindPort
	kindScheme
	kindMethod
	kindAddress
	kindField
	kindCookie
	kindParameter
	kindID
	kindUser
)

var kinds = map[string]kind{"path": kindPath, "rest": kindRest, "prefix": kindPrefix,
	"uri": kindURI, "query": kindQuery, "host": kindHost, "port": kindPort, "scheme": kindScheme,
	"method": kindMethod, "address": kindAddress, "id": kindID, "user": kindUser}

var families = map[string]kind{"field": kindField, "cookie": kindCookie,
	"query": kindParameter}

// Scheme returns the scheme that the client uses.
func Scheme(req *conn.Request) string { return schemeOf(req.Layer()) }

func schemeOf(q Asked) string {
	if q.Secure() {
		return "https"
	}
	return "http"
}

// AppendPort appends the port that the client has asked for: the one in Host, else that of the
// scheme.
func AppendPort(out []byte, req *conn.Request) []byte { return appendPort(out, req.Layer()) }

func appendPort(out []byte, q Asked) []byte {
	host := q.HostView()
	if name := withoutPort(host); len(name)+1 < len(host) {
		return append(out, host[len(name)+1:]...)
	}
	if req, real := q.(conn.RequestLayer); real && len(host) == 0 && req.LocalAddr().IsValid() {
		return strconv.AppendInt(out, int64(req.LocalAddr().Port()), 10) // HTTP/1.0
	}
	if q.Secure() {
		return append(out, "443"...)
	}
	return append(out, "80"...)
}

func withoutPort(host []byte) []byte {
	if i := bytes.LastIndexByte(host, ':'); i > bytes.LastIndexByte(host, ']') {
		return host[:i]
	}
	return host
}

// appendBelow appends what follows the route's prefix, with the slash in front or without it.
func appendBelow(out []byte, q Asked, slash bool) []byte {
	from := len(out)
	if req, real := q.(conn.RequestLayer); real {
		out = req.AppendSubPath(out)
	} else {
		out = http1.AppendBelow(out, q.SentPathView(), len(strings.TrimSuffix(q.Prefix(), "/")))
	}
	if len(out) == from {
		out = append(out, '/')
	}
	if !slash {
		out = slices.Delete(out, from, from+1)
	}
	return out
}

// AppendAddress appends what {address} stands for.
func AppendAddress(out []byte, req *conn.Request) []byte { return appendAddress(out, req.Layer()) }

// appendAddress appends the client's address, "unix:" if it has none.
func appendAddress(out []byte, q Asked) []byte {
	if a := q.RemoteAddr().Addr(); a.IsValid() {
		return a.Unmap().WithZone("").AppendTo(out)
	}
	return append(out, "unix:"...)
}

// appendField appends the values of all fields of that name, which count as one (RFC 9110 section
// 5.3): which of them an application looks at is not known.
func appendField(out []byte, q Asked, name string) []byte {
	value, next := q.HeaderViewFrom(name, 0)
	for more := false; next > 0; value, next = q.HeaderViewFrom(name, next) {
		if more {
			out = append(out, ", "...)
		}
		out, more = append(out, value...), true
	}
	return out
}

// Cookie returns a view of the value of the first cookie of that name.
func Cookie(req *conn.Request, name string) []byte {
	value, _ := cookie(req.Layer(), name)
	return value
}

func cookie(q Asked, name string) (value []byte, ok bool) {
	line, next := q.HeaderViewFrom("Cookie", 0)
	for ; next > 0; line, next = q.HeaderViewFrom("Cookie", next) {
		for len(line) > 0 {
			var pair []byte
			pair, line, _ = bytes.Cut(line, []byte{';'})
			key, value, ok := bytes.Cut(ascii.TrimOWS(pair), []byte{'='})
			if ok && string(key) == name {
				return value, true
			}
		}
	}
	return nil, false
}

// appendParameter appends the first parameter of that name, decoded as that of a form. Controls and
// percent signs of the value are encoded again.
func appendParameter(out, query []byte, name string) []byte {
	from := len(out)
	out, coded := parameter(out, query, name)
	if !coded {
		return out
	}
	return appendVisible(out[:from], string(out[from:]))
}

// Repeats reports whether a query has a parameter of the text more than once. The text has the
// first one, and an application may look at the last one.
func (t Text) Repeats(query []byte) bool {
	for i := range t {
		if t[i].kind != kindParameter {
			continue
		}
		times := 0
		for rest := query; len(rest) > 0 && times < 2; {
			var pair []byte
			pair, rest, _ = bytes.Cut(rest, []byte{'&'})
			if key, _, _ := bytes.Cut(pair, []byte{'='}); isNamed(key, t[i].of) {
				times++
			}
		}
		if times > 1 {
			return true
		}
	}
	return false
}

// isNamed reports whether the key of a parameter, which may be encoded, is a name.
func isNamed(key []byte, name string) bool {
	if bytes.IndexByte(key, '%') < 0 && bytes.IndexByte(key, '+') < 0 {
		return string(key) == name
	}
	var room [64]byte
	return string(http1.AppendUnescaped(room[:0], key)) == name
}

// parameter appends the value decoded, and reports whether it was encoded.
func parameter(out, query []byte, name string) (_ []byte, coded bool) {
	for len(query) > 0 {
		var pair []byte
		pair, query, _ = bytes.Cut(query, []byte{'&'})
		key, value, _ := bytes.Cut(pair, []byte{'='})
		if !isNamed(key, name) {
			continue
		}
		if bytes.IndexByte(value, '%') < 0 && bytes.IndexByte(value, '+') < 0 {
			return append(out, value...), false
		}
		return http1.AppendUnescaped(out, value), true
	}
	return out, false
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
