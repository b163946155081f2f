package cgi_test

import (
	"strings"

	"github.com/lwango/lwango/internal/wire/cgi"
)

// goodHeaders are headers and what must be understood, in describe's words.
var goodHeaders = []struct{ raw, want string }{
	{"\r\n", "200"}, // no field, and no Content-Type is made up
	{"\n", "200"},
	{"Content-type: text/html\r\n\r\n", "200 Content-type=text/html"},
	{"Content-type: text/html\n\n", "200 Content-type=text/html"},
	{"A: b\nC: d\r\n\n", "200 A=b C=d"}, // line ends mixed
	{"A:b\r\nC:\t d e \t\r\nE:\r\nF: \r\n\r\n", "200 A=b C=d e E= F="},
	{"A: \xff\xc3\xbc\tx\r\n\r\n", "200 A=\xff\xc3\xbc\tx"},
	{"A: b:c\r\nA: b:c\r\n!#$%&'*+-.^_`|~1: x\r\n\r\n", "200 A=b:c A=b:c !#$%&'*+-.^_`|~1=x"},
	{"Set-Cookie: a=1\r\nset-cookie: b=2\r\n\r\n", "200 Set-Cookie=a=1 set-cookie=b=2"},

	// Status.
	{"Status: 404 Not Found\r\n\r\n", "404 (Not Found)"},
	{"STATUS:200\r\n\r\n", "200"},
	{"Status: 200 \r\n\r\n", "200"},
	{"Status: 299  spaced  out\r\n\r\n", "299 (spaced  out)"},
	{"Status: 599 \xe9\t!\r\n\r\n", "599 (\xe9\t!)"},
	{"Status: 500\tX\r\n\r\n", "500 (X)"},
	// where PHP puts it, and not for the client
	{"A: b\r\nStatus: 204\r\nC: d\r\n\r\n", "204 A=b C=d"},
	{"Status: 404 a\r\nStatus: 404 b\r\n\r\n", "404 (a)"},

	// A status of an interim response is none: there is one header, and what follows it is the
	// body.
	{"Status: 103 Early Hints\r\nLink: </a>\r\n\r\n", "200 Link=</a>"},
	{"Status: 100 Continue\r\n\r\n", "200"},
	{"Status: 199\r\nLocation: /x\r\n\r\n", "302 Location=/x"},
	{"Status: 103\r\nStatus: 404\r\n\r\n", "404"},
	{"Status: 404\r\nStatus: 103\r\n\r\n", "404"},

	// Content-Type: the first one, if it is one.
	{"Content-Type: a/b\r\ncontent-type: c/d\r\nContent-Type: a/b\r\n\r\n",
		"200 Content-Type=a/b second:c/d"},
	{"Content-Type: a/b\r\nContent-Type: a/b\r\n\r\n", "200 Content-Type=a/b"},
	{"Content-Type:\r\nA: b\r\n\r\n", "200 A=b"},
	{"Content-Type: \t\r\nContent-Type: c/d\r\nContent-Type:\r\n\r\n", "200 Content-Type=c/d"},
	{"Content-Type: a/b\r\nConnection: Content-Type\r\n\r\n", "200"},

	// Location.
	{"Location: /x\r\n\r\n", "302 Location=/x"},
	{"location: http://a/\r\nStatus: 201 Created\r\n\r\n", "201 (Created) location=http://a/"},
	{"Status: 301\r\nLocation: /x\r\n\r\n", "301 Location=/x"},
	{"Location:\r\n\r\n", "200 Location="}, // leads nowhere
	{"Content-Location: /x\r\n\r\n", "200 Content-Location=/x"},

	// Content-Length that is a number, and that is none.
	{"Content-Length: 0\r\n\r\n", "200 length=0"},
	{"content-length: 0012\r\n\r\n", "200 length=12"},
	{"Content-Length: 9223372036854775807\r\n\r\n", "200 length=9223372036854775807"},
	{"Content-Length: 9223372036854775808\r\n\r\n", "200"},
	{"Content-Length: 99999999999999999999999\r\n\r\n", "200"},
	{"Content-Length: -5\r\n\r\n", "200"},
	{"Content-Length: +5\r\n\r\n", "200"},
	{"Content-Length: abc\r\n\r\n", "200"},
	{"Content-Length: 5, 5\r\n\r\n", "200"},
	{"Content-Length: 5 5\r\n\r\n", "200"},
	{"Content-Length: 0x5\r\n\r\n", "200"},
	{"Content-Length:\r\n\r\n", "200"},
	{"Content-Length: 5\r\nContent-Length: 5\r\n\r\n", "200 length=5"},
	{"Content-Length: 5\r\nContent-Length: 05\r\n\r\n", "200 length=5"},
	{"Content-Length: x\r\nContent-Length: -1\r\n\r\n", "200"},

	// What is about the connection.
	{"Transfer-Encoding: chunked\r\n\r\n", "200 coding:chunked"},
	{"Transfer-Encoding:\r\n\r\n", "200 coding:identity"},
	{"Connection: close\r\nKeep-Alive: timeout=5\r\nUpgrade: h2\r\nTrailer: X\r\nTE: trailers\r\n" +
		"A: b\r\n\r\n",
		"200 A=b"},
	{"Proxy-Authenticate: Basic\r\nproxy-connection: close\r\nProxy-X: a\r\nProxy-Four: b\r\n" +
		"Proxy: x\r\n\r\n",
		"200 Proxy=x"},
	{"A: b\r\nConnection: close, A, C\r\nc: d\r\nE: f\r\n\r\n", "200 E=f"},
	{"Connection: keep-alive\r\nkeep-alive: x\r\nConnection: E\r\nE: f\r\nEE: g\r\n\r\n",
		"200 EE=g"},
	{"Te-st: a\r\nUpgrades: b\r\nTrailers: c\r\n\r\n", "200 Te-st=a Upgrades=b Trailers=c"},

	{"Status: 600\r\n\r\n", "600"}, // the proxy passes them on, too
	{"Status: 999 Own\r\n\r\n", "999 (Own)"},

	// What is for the server.
	{"X-Accel-Redirect: /secret/file\r\n\r\n", "200 redirect:/secret/file"},
	{"X-Sendfile: /srv/x\r\nContent-Type: a/b\r\n\r\n", "200 Content-Type=a/b sendfile:/srv/x"},
	{"X-Accel-Buffering: no\r\n\r\n", "200 unbuffered"},
	{"X-Accel-Buffering: Yes\r\n\r\n", "200 buffered"},
	{"X-Accel-Buffering: maybe\r\nX-Accel-Expires: 5\r\nX-Accel-Limit-Rate: 5\r\nX-Accel: z\r\n" +
		"\r\n", "200 X-Accel=z"},

	// As large as may be: 100 KB would not be.
	{"X: " + strings.Repeat("v", cgi.HeaderLimit-len("X: \r\n\r\n")) + "\r\n\r\n", "200 X=" +
		strings.Repeat("v", cgi.HeaderLimit-7)},
	{strings.Repeat("X: "+strings.Repeat("v", 1024)+"\r\n", 20) + "\r\n", "200" +
		strings.Repeat(" X="+strings.Repeat("v", 1024), 20)},
	{strings.Repeat("a:\n", cgi.MaxFields) + "\n", "200" + strings.Repeat(" a=", cgi.MaxFields)},
}

// badHeaders are refused with exactly that error.
var badHeaders = []struct {
	raw  string
	want *cgi.Error
}{
	{"HTTP/1.1 404 Nope\r\nA: b\r\n\r\n", cgi.ErrNPH},
	{"HTTP/1.0 200 OK: x\r\n\r\n", cgi.ErrNPH},
	{"A: b\r\nHTTP/1.1 404 Nope\r\n\r\n", cgi.ErrName},
	{"just a body\n", cgi.ErrName},
	{"<html>\r\n\r\n", cgi.ErrName},
	{"<a href='http://x'>\r\n\r\n", cgi.ErrName},
	{"A: b\r\nno colon\r\n\r\n", cgi.ErrName},
	{": x\r\n\r\n", cgi.ErrName},
	{"A : b\r\n\r\n", cgi.ErrName},
	{"A\t: b\r\n\r\n", cgi.ErrName},
	{"A b: c\r\n\r\n", cgi.ErrName},
	{"A\x00: b\r\n\r\n", cgi.ErrName},
	{"\xc3\xbc: b\r\n\r\n", cgi.ErrName},
	{"\rA: b\r\n\r\n", cgi.ErrName},
	{"\r\r\n\r\n", cgi.ErrName},
	{" A: b\r\n\r\n", cgi.ErrFold},
	{"A: b\r\n c\r\n\r\n", cgi.ErrFold},
	{"A: b\r\n\tc: d\r\n\r\n", cgi.ErrFold},
	{" \r\n\r\n", cgi.ErrFold},
	{"A: b\rc\r\n\r\n", cgi.ErrValue}, // a bare CR
	{"A: b\r\r\n\r\n", cgi.ErrValue},
	{"A: b\rC: d\n\n", cgi.ErrValue},
	{"A: b\x00\r\n\r\n", cgi.ErrValue},
	{"A: \x1b[0m\r\n\r\n", cgi.ErrValue},
	{"A: b\x7f\r\n\r\n", cgi.ErrValue},
	{"Status: 404 a\x01\r\n\r\n", cgi.ErrValue},

	{"Status:\r\n\r\n", cgi.ErrStatus},
	{"Status: 20\r\n\r\n", cgi.ErrStatus},
	{"Status: 1000\r\n\r\n", cgi.ErrStatus},
	{"Status: 200abc\r\n\r\n", cgi.ErrStatus},
	{"Status: abc\r\n\r\n", cgi.ErrStatus},
	{"Status: 2 0\r\n\r\n", cgi.ErrStatus},
	{"Status: +20\r\n\r\n", cgi.ErrStatus},
	{"Status: HTTP/1.1 200 OK\r\n\r\n", cgi.ErrStatus},
	{"Status: 000\r\n\r\n", cgi.ErrStatus},
	{"Status: 099\r\n\r\n", cgi.ErrStatus},
	{"Status: 101 Switching Protocols\r\n\r\n", cgi.ErrStatus},
	{"Status: 200 OK\r\nStatus: 404\r\n\r\n", cgi.ErrStatusTwice},

	{"Content-Length: 5\r\nContent-Length: 3\r\n\r\n", cgi.ErrLengthTwice},
	{"Content-Length: 5\r\ncontent-length: abc\r\n\r\n", cgi.ErrLengthTwice},
	{"Content-Length: -5\r\nContent-Length: 5\r\n\r\n", cgi.ErrLengthTwice},
	{"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n", cgi.ErrFraming},
	{"Transfer-Encoding: x\r\nContent-Length: junk\r\n\r\n", cgi.ErrFraming},

	{"X: " + strings.Repeat("v", cgi.HeaderLimit-len("X: \r\n\r\n")+1) + "\r\n\r\n",
		cgi.ErrHeaderSize},
	{"X: " + strings.Repeat("v", 100<<10), cgi.ErrHeaderSize},
	{strings.Repeat("X: "+strings.Repeat("v", 1024)+"\r\n", 100), cgi.ErrHeaderSize},
	{strings.Repeat("a:\n", cgi.MaxFields+1), cgi.ErrFieldCount},
}
