// Package headrows has heads of requests, as they come, for the tests of the parser and of servers
// that use it.
package headrows

import (
	"strings"

	"github.com/lwango/lwango/internal/wire/http1"
)

// Good are heads and what must be understood, in the words of the parser's test. Fields are not
// repeated there.
var Good = []struct{ Raw, Want string }{
	{"GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 path=/ host=a"},
	{"GET / HTTP/1.0\r\n\r\n", "GET 1.0 path=/"},
	{"GET / HTTP/1.0\r\nHost: a\r\nConnection: Keep-Alive\r\n\r\n",
		"GET 1.0 path=/ host=a keep-alive"},
	{"HEAD /a/b?c=d?e HTTP/1.1\r\nHost: a:80\r\n\r\n", "HEAD 1.1 path=/a/b query=c=d?e host=a:80"},
	{"GET /? HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 path=/ query= host=a"},
	{"GET //a HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 path=//a host=a"},
	// Any later 1.x is read as the highest we know (RFC 9110 section 6.2).
	{"GET / HTTP/1.7\r\nHost: a\r\n\r\n", "GET 1.1 path=/ host=a"},
	// Empty lines before the request (RFC 9112 section 2.2).
	{"\r\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 path=/ host=a"},
	{strings.Repeat("\r\n", 8) + "GET / HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 path=/ host=a"},
	// White space around values is none of theirs (RFC 9110 section 5.5); a name ends at the first
	// colon.
	{"GET / HTTP/1.1\r\nHost:\t  a \t\r\n\r\n", "GET 1.1 path=/ host=a"},
	{"GET / HTTP/1.1\r\nHost:a\r\nX:\r\nY: \t \r\nZ::\r\n\r\n", "GET 1.1 path=/ host=a"},
	{"GET / HTTP/1.1\r\nhOST: a\r\nX-Raw: a\tb \xff\xc3\xbc, 12345678\r\n\r\n",
		"GET 1.1 path=/ host=a"},
	// Raw bytes that are no URI characters but harmless.
	{"GET /\xc3\xbc|\"?{} HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 path=/\xc3\xbc|\" query={} host=a"},
	// Targets (RFC 9112 section 3.2).
	{"GET http://b:8080/x?y HTTP/1.1\r\nHost: a\r\n\r\n",
		"GET 1.1 path=/x query=y host=b:8080 absolute"},
	{"GET HTTPS://b HTTP/1.1\r\nHost: a\r\n\r\n", "GET 1.1 path= host=b absolute"},
	{"GET http://b?y HTTP/1.1\r\nHost:\r\n\r\n", "GET 1.1 path= query=y host=b absolute"},
	{"GET http://b/ HTTP/1.0\r\n\r\n", "GET 1.0 path=/ host=b absolute"},
	{"OPTIONS * HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS 1.1 path= host=a asterisk"},
	{"OPTIONS http://b HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS 1.1 path= host=b asterisk absolute"},
	{"OPTIONS http://b/ HTTP/1.1\r\nHost: a\r\n\r\n", "OPTIONS 1.1 path=/ host=b absolute"},
	{"CONNECT a.b:443 HTTP/1.1\r\nHost: a.b\r\n\r\n", "CONNECT 1.1 path= host=a.b:443"},
	// A client without an authority sends an empty Host (RFC 9112 section 3.2).
	// Every other method.
	{"PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\n\r\n", "PUT 1.1 path=/ host=a length=0"},
	{"DELETE / HTTP/1.1\r\nHost: a\r\n\r\n", "DELETE 1.1 path=/ host=a"},
	{"PATCH / HTTP/1.1\r\nHost: a\r\n\r\n", "PATCH 1.1 path=/ host=a"},
	{"TRACE / HTTP/1.1\r\nHost: a\r\n\r\n", "TRACE 1.1 path=/ host=a"},
	// Framing.
	{"POST / HTTP/1.1\r\nHost: a\r\ncontent-length: 005\r\n\r\n", "POST 1.1 path=/ host=a length=5"},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n",
		"POST 1.1 path=/ host=a length=9223372036854775807"},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-encoding: ChunKed\r\n\r\n",
		"POST 1.1 path=/ host=a chunked"},
	// Connection is a list, empty elements and several fields included (RFC 9110 sections 5.6.1.2,
	// 7.6.1).
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n", "GET 1.1 path=/ host=a close"},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: ,TE ,\t CLOSE,\r\nConnection: keep-alive, x\r\n\r\n",
		"GET 1.1 path=/ host=a close keep-alive"},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: closed, not-close, close;x\r\n\r\n",
		"GET 1.1 path=/ host=a"},
	{"GET / HTTP/1.1\r\nHost: a\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"GET 1.1 path=/ host=a keep-alive"},
	// Expect, with a body, without one, and from a 1.0 client (RFC 9110 section 10.1.1).
	{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n",
		"PUT 1.1 path=/ host=a length=1 expect"},
	{"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue,\r\n\r\n",
		"PUT 1.1 path=/ host=a chunked expect"},
	{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nContent-Length: 0\r\n\r\n",
		"PUT 1.1 path=/ host=a length=0"},
	{"PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n", "PUT 1.0 path=/ length=1"},
	{"PUT / HTTP/1.0\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", "PUT 1.0 path=/ length=1"},
	// As many field lines as there may be.
	{"GET / HTTP/1.0\r\n" + strings.Repeat("a:\r\n", http1.MaxFields) + "\r\n", "GET 1.0 path=/"},
}

// Bad are refused with exactly that error.
var Bad = []struct {
	Raw  string
	Want *http1.Error
}{
	{strings.Repeat("\r\n", 9) + "GET / HTTP/1.1\r\nHost: a\r\n\r\n", http1.ErrEmptyLines},
	{"\nGET / HTTP/1.1\r\nHost: a\r\n\r\n", http1.ErrBareLF},
	{"\rGET / HTTP/1.1\r\nHost: a\r\n\r\n", http1.ErrBareCR},
	{" GET / HTTP/1.1\r\nHost: a\r\n\r\n", http1.ErrFold},
	{"\x16\x03\x01\x02", http1.ErrMethodSyntax}, // a TLS hello has no line end to wait for
	{"\x00", http1.ErrMethodSyntax},

	// Method.
	{"GET\r\n", http1.ErrMethodSyntax},
	{"GET\t/ HTTP/1.1\r\n", http1.ErrMethodSyntax},
	{"G\x80T / HTTP/1.1\r\n", http1.ErrMethodSyntax},
	{"GET: / HTTP/1.1\r\n", http1.ErrMethodSyntax},
	{"PRI / HTTP/1.1\r\n", http1.ErrMethod},
	{"PRI * HTTP/1.1\r\n", http1.ErrMethod},
	{strings.Repeat("A", 65) + " / HTTP/1.1\r\n", http1.ErrMethod},
	{strings.Repeat("A", 65), http1.ErrMethod}, // also before the end of the line, whatever that is
	{strings.Repeat("A", 66) + "\rB", http1.ErrMethod},
	{"\r\n" + strings.Repeat("A", 100_000) + "\n", http1.ErrMethod},

	// Version. It wins over the method.
	{"GET /\r\n", http1.ErrVersion},
	{"GET / \r\n", http1.ErrVersion},
	{"GET / HTTP/1.1 \r\n", http1.ErrVersion},
	{"GET / HTTP/1.10\r\n", http1.ErrVersion},
	{"GET / HTTP/1\r\n", http1.ErrVersion},
	{"GET / HTTP/11.1\r\n", http1.ErrVersion},
	{"GET / HTTP/1,1\r\n", http1.ErrVersion},
	{"GET / HTTP/a.1\r\n", http1.ErrVersion},
	{"GET / HTTP/1.a\r\n", http1.ErrVersion},
	{"GET / http/1.1\r\n", http1.ErrVersion},
	{"GET / FTP/1.1\r\n", http1.ErrVersion},
	{"GET /\tHTTP/1.1\r\n", http1.ErrVersion},
	{"GET HTTP/1.1\r\n", http1.ErrVersion},
	{"BREW / HTTP/1\r\n", http1.ErrVersion},
	{"GET / HTTP/0.9\r\n", http1.ErrVersionMajor},
	{"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", http1.ErrVersionMajor},
	{"BREW / HTTP/3.0\r\n", http1.ErrVersionMajor},

	// Target.
	{"GET  HTTP/1.1\r\n", http1.ErrTarget},
	{"GET  / HTTP/1.1\r\n", http1.ErrTarget},
	{"GET /  HTTP/1.1\r\n", http1.ErrTarget},
	{"GET /a b HTTP/1.1\r\n", http1.ErrTarget},
	{"GET / HTTP/1.1 HTTP/1.1\r\n", http1.ErrTarget},
	{"GET /a\tb HTTP/1.1\r\n", http1.ErrTarget},
	{"GET /a\x00b HTTP/1.1\r\n", http1.ErrTarget},
	{"GET /12345678\x7f12345678 HTTP/1.1\r\n", http1.ErrTarget},
	{"GET /12345678#12345678 HTTP/1.1\r\n", http1.ErrTarget},
	{"GET /a?b#c HTTP/1.1\r\n", http1.ErrTarget},
	{"GET a HTTP/1.1\r\n", http1.ErrTarget},
	{"GET ?a HTTP/1.1\r\n", http1.ErrTarget},
	{"GET a:80 HTTP/1.1\r\n", http1.ErrTarget}, // authority-form is CONNECT's
	{"GET http:/a HTTP/1.1\r\n", http1.ErrTarget},
	{"GET ** HTTP/1.1\r\n", http1.ErrTarget},
	{"GET * HTTP/1.1\r\n", http1.ErrTargetForm},
	{"GET ftp://a/ HTTP/1.1\r\n", http1.ErrScheme},
	{"GET httpx://a/ HTTP/1.1\r\n", http1.ErrScheme},
	{"GET http:// HTTP/1.1\r\n", http1.ErrAuthority},
	{"GET http:///a HTTP/1.1\r\n", http1.ErrAuthority},
	{"GET http://:80/ HTTP/1.1\r\n", http1.ErrAuthority},
	{"GET http://u@a/ HTTP/1.1\r\n", http1.ErrAuthority},
	{"GET http://u:p@a/ HTTP/1.1\r\n", http1.ErrAuthority},
	{"GET http://a:b/ HTTP/1.1\r\n", http1.ErrAuthority},
	{"CONNECT / HTTP/1.1\r\n", http1.ErrAuthority},
	{"CONNECT a HTTP/1.1\r\n", http1.ErrAuthority},
	{"CONNECT a: HTTP/1.1\r\n", http1.ErrAuthority},
	{"CONNECT a:0 HTTP/1.1\r\n", http1.ErrAuthority},
	{"CONNECT :80 HTTP/1.1\r\n", http1.ErrAuthority},
	{"CONNECT http://a:80/ HTTP/1.1\r\n", http1.ErrAuthority},

	// Line ends.
	{"GET / HTTP/1.1\n", http1.ErrBareLF},
	{"GET / HTTP/1.1\r\nHost: a\n", http1.ErrBareLF},
	{"GET / HTTP/1.1\r\nHost: a\r\n\n", http1.ErrBareLF},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: a\nTransfer-Encoding: chunked\r\n\r\n", http1.ErrBareLF},
	{"GET / HTTP/1.1\r\nHost: a\r\r", http1.ErrBareCR}, // does not wait for an LF
	{"GET / HTTP/1.1\r\nHost: a\r\nX: a\rb\r\n\r\n", http1.ErrBareCR},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: a\rContent-Length: 5\r\n\r\n", http1.ErrBareCR},
	{"GET / HTTP/1.1\r\nHost: a\r\n\rX: a\r\n\r\n", http1.ErrBareCR},
	{"GET / HTTP/1.1\r\r\nHost: a\r\n\r\n", http1.ErrBareCR},
	{"GET /\r HTTP/1.1\r\nHost: a\r\n\r\n", http1.ErrBareCR},
	{"BREW /\r HTTP/1.1\r\n", http1.ErrBareCR},
	{"GET / HTTP/1.1\r\nHost: a\rb\n", http1.ErrBareCR},

	// Field lines.
	{"GET / HTTP/1.1\r\n Host: a\r\n\r\n", http1.ErrFold},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", http1.ErrFold},
	{"GET / HTTP/1.1\r\nHost: a\r\n\tContent-Length: 5\r\n\r\n", http1.ErrFold},
	{"GET / HTTP/1.1\r\nHost: a\r\n \r\n\r\n", http1.ErrFold},
	{"GET / HTTP/1.1\r\nHost : a\r\n\r\n", http1.ErrFieldName},
	{"GET / HTTP/1.1\r\nHost: a\r\nContent-Length\t: 5\r\n\r\n", http1.ErrFieldName},
	{"GET / HTTP/1.1\r\nHost: a\r\n: b\r\n\r\n", http1.ErrFieldName},
	{"GET / HTTP/1.1\r\nHost: a\r\nabc\r\n\r\n", http1.ErrFieldName},
	{"GET / HTTP/1.1\r\nHost: a\r\nX\x00: b\r\n\r\n", http1.ErrFieldName},
	{"GET / HTTP/1.1\r\nHost: a\r\nX\xc3\xbc: b\r\n\r\n", http1.ErrFieldName},
	{"GET / HTTP/1.1\r\nHost: a\r\n\"X\": b\r\n\r\n", http1.ErrFieldName},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: a\x00b\r\n\r\n", http1.ErrFieldValue},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: 1234\t678\x1f2345678\r\n\r\n", http1.ErrFieldValue},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: 12345678\x7f\r\n\r\n", http1.ErrFieldValue},
	{"GET / HTTP/1.1\r\nHost: a\r\nX: \x0b\r\n\r\n", http1.ErrFieldValue},
	{"GET / HTTP/1.1\r\n" + strings.Repeat("a:\r\n", http1.MaxFields+1), http1.ErrFieldCount},

	// Host.
	{"GET / HTTP/1.1\r\n\r\n", http1.ErrHostMissing},
	{"GET http://a/ HTTP/1.1\r\n\r\n", http1.ErrHostMissing},
	{"GET / HTTP/1.1\r\nHosts: a\r\n\r\n", http1.ErrHostMissing},
	{"GET / HTTP/1.1\r\nHost: a\r\nHost: a\r\n\r\n", http1.ErrHostRepeated},
	{"GET / HTTP/1.1\r\nHost: a\r\nhost: b\r\n\r\n", http1.ErrHostRepeated},
	{"GET / HTTP/1.1\r\nHost:\r\nHost: b\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.0\r\nHost: a\r\nHost: a\r\n\r\n", http1.ErrHostRepeated},
	{"GET / HTTP/1.1\r\nHost: a b\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.1\r\nHost:\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.0\r\nHost: \r\n\r\n", http1.ErrHost},
	{"OPTIONS * HTTP/1.1\r\nHost:\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.1\r\nHost: admin%2etest\r\n\r\n", http1.ErrHost},
	{"GET http://admin%2etest/ HTTP/1.1\r\nHost: a\r\n\r\n", http1.ErrAuthority},
	{"GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.1\r\nHost: a/b\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.1\r\nHost: u@a\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.1\r\nHost: :80\r\n\r\n", http1.ErrHost},
	{"GET / HTTP/1.1\r\nHost: \xc3\xbc\r\n\r\n", http1.ErrHost},
	{"GET http://a/ HTTP/1.1\r\nHost: b c\r\n\r\n", http1.ErrHost},

	// Content-Length.
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +5\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -5\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x5\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5 5\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5, 5\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5,\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5_0\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: \"5\"\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 18446744073709551621\r\n\r\n", http1.ErrLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nContent-Length: 6\r\n\r\n",
		http1.ErrLengthTwice},
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\ncontent-length: 5\r\n\r\n",
		http1.ErrLengthTwice},

	// Transfer-Encoding.
	{"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
		http1.ErrCodingLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 0\r\n\r\n",
		http1.ErrCodingLength},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n",
		http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
		http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", http1.ErrCodingUnknown},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x-a ,\tgzip,Chunked\r\n\r\n",
		http1.ErrCodingUnknown},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip, chunked\r\n\r\n",
		http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: , chunked\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip;q=1, chunked\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.0\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", http1.ErrCodingOn10},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked,\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked;q=1\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \"chunked\"\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\r\n\r\n", http1.ErrCoding},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: \x0bchunked\r\n\r\n", http1.ErrFieldValue},
	{"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", http1.ErrFieldName},
	{"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n", http1.ErrCodingOn10},

	// Expect.
	{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: tea\r\nContent-Length: 1\r\n\r\n", http1.ErrExpectation},
	{"PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue, tea\r\nContent-Length: 1\r\n\r\n",
		http1.ErrExpectation},
}
