package fcgitest

import (
	"strings"
	"time"
)

// Timeout is the read time-out of a proxy that is to give an application up.
const Timeout = 600 * time.Millisecond

// patience is that of a proxy that must not, so it is much longer than gap. A machine may hold the
// application up between two records.
const (
	patience = 3 * time.Second
	gap      = patience / 30
)

// A Case is something that an application does, and what a client has to see of it.
type Case struct {
	Name   string
	Post   int // bytes of body to send; 0 is a GET
	Script Script

	// Timeout is the proxy's read time-out; 0 is one that does not matter.
	Timeout time.Duration

	Status int
	Body   string   // of a response that is not an error's
	Echo   bool     // instead: what was sent
	Fields []string // "Name: value" is there, once; "Name" is not there

	// Cut: the response is not complete, and the client can tell. Where nothing of it has gone out
	// yet it may be a 502 instead, or a 504 with Timeout.
	Cut bool
	// Spoilt: the connection is not to be used again, though it was kept.
	Spoilt bool
}

const okHead = "Content-Type: text/plain\r\n\r\n"

var field = "X-K: " + strings.Repeat("k", 1024) + "\r\n"

// reads is a script that reads the request first, and leaves the connection to the peer afterwards.
func reads(f func(c *Conn)) Script {
	return func(c *Conn) {
		c.Read()
		f(c)
		c.Gone(10 * time.Second)
	}
}

// says is an answer that is complete as far as FastCGI goes.
func says(stdout ...string) Script { return reads(func(c *Conn) { c.Stdout(stdout...); c.End() }) }

// header is a case of a header that is refused.
func refused(name, stdout string) Case {
	return Case{Name: name, Script: says(stdout), Status: 502}
}

// good is a case of an answer that is complete.
func good(name string, stdout []string, body string, fields ...string) Case {
	return Case{Name: name, Script: says(stdout...), Status: 200, Body: body, Fields: fields}
}

// ends is a case of END_REQUEST alone, with a protocolStatus.
func ends(name string, protocol byte, status int) Case {
	return Case{Name: name, Script: reads(func(c *Conn) { c.EndStatus(0, protocol) }),
		Status: status, Spoilt: true}
}

// between is a case of a record in the midst of a good response.
func between(name string, typ byte, id uint16, content string) Case {
	return Case{Name: name, Script: reads(func(c *Conn) {
		c.Record(typ, id, content, 3)
		c.Stdout(okHead + "hel")
		c.Record(typ, id, content, 0)
		c.Stdout("lo")
		c.End()
	}), Status: 200, Body: "hello", Spoilt: true}
}

// Cases are what applications get wrong, or merely do otherwise.
var Cases = []Case{
	// The end.
	good("plain", []string{okHead + "hello"}, "hello", "Content-Type: text/plain"),
	{Name: "STDOUT, then EOF", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.Close()
	}), Status: 200, Cut: true},
	{Name: "STDOUT and its end, then EOF", Script: reads(func(c *Conn) {
		c.Stdout(okHead+"hello", "")
		c.Close()
	}), Status: 200, Cut: true},
	{Name: "record cut short", Script: reads(func(c *Conn) {
		c.Stdout(okHead)
		c.CutAfter(8+3, false)
		c.Stdout("hello")
	}), Status: 200, Cut: true},
	{Name: "header of a record cut short", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.CutAfter(5, false)
		c.End()
	}), Status: 200, Cut: true},
	{Name: "END_REQUEST cut short", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.CutAfter(15, false)
		c.End()
	}), Status: 200, Cut: true},
	{Name: "10 declared, 5 sent, EOF", Script: reads(func(c *Conn) {
		c.Stdout("Content-Length: 10\r\n\r\nhello")
		c.Close()
	}), Status: 200, Cut: true},
	{Name: "10 declared, 5 sent, END_REQUEST", Script: says("Content-Length: 10\r\n\r\nhello"),
		Status: 200, Cut: true},
	{Name: "5 declared, 10 sent", Script: says("Content-Length: 5\r\n\r\nhello, you"), Status: 200,
		Body: "hello"},
	{Name: "END_REQUEST, connection left open", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.End()
		c.Sleep(2 * Timeout)
	}), Status: 200, Body: "hello"},
	{Name: "EOF at once", Script: reads((*Conn).Close), Status: 502},
	{Name: "EOF before the request", Script: (*Conn).Close, Status: 502},
	{Name: "reset before the answer", Post: 5 << 20,
		Script: func(c *Conn) { c.ReadHead(); c.Reset() }, Status: 502},
	{Name: "reset in the body", Post: 5 << 20, Script: func(c *Conn) {
		c.ReadHead()
		c.Stdout(okHead + "hello")
		c.Sleep(Timeout / 4)
		c.Reset()
	}, Status: 200, Cut: true},
	{Name: "bytes behind the end", Script: reads(func(c *Conn) {
		c.Stdout(okHead +
			"hello")
		c.End()
		c.Stdout("more")
	}), Status: 200, Body: "hello", Spoilt: true},
	{Name: "padding of END_REQUEST never comes", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.Raw(Header(1, 3, 1, 8, 7) + strings.Repeat("\x00", 8))
	}), Status: 200, Body: "hello", Spoilt: true},

	// END_REQUEST with a status.
	ends("CANT_MPX_CONN", 1, 502), ends("OVERLOADED", 2, 503), ends("UNKNOWN_ROLE", 3, 502),
	ends("protocolStatus 77", 77, 502),
	{Name: "END_REQUEST without anything", Script: reads((*Conn).End), Status: 502},
	{Name: "exit code", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.EndStatus(3, 0)
	}), Status: 200, Body: "hello"},
	{Name: "OVERLOADED after output", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.EndStatus(0, 2)
	}), Status: 200, Cut: true, Spoilt: true},
	{Name: "END_REQUEST of 4 bytes", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hello")
		c.Record(3, 1,
			"\x00\x00\x00\x00", 4)
	}), Status: 200, Cut: true, Spoilt: true},

	// Records that are not of the response.
	between("management record", 10, 0, "\x0f\x01FCGI_MPXS_CONNS0"),
	between("UNKNOWN_TYPE", 11, 0, "\x05\x00\x00\x00\x00\x00\x00\x00"),
	between("unknown type", 42, 1, "what is this"),
	{Name: "foreign id", Script: reads(func(c *Conn) {
		c.Record(6, 2, okHead+"hello", 0)
		c.End()
	}), Status: 502, Spoilt: true},
	{Name: "foreign id in the body", Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hel")
		c.Record(6, 777, "lo", 0)
		c.End()
	}), Status: 200, Cut: true, Spoilt: true},
	{Name: "version 0", Script: reads(func(c *Conn) {
		c.Raw(Header(0, 6, 1, 2, 0) + "\r\n")
		c.End()
	}), Status: 502, Spoilt: true},
	{Name: "version 2", Script: reads(func(c *Conn) {
		c.Raw(Header(2, 6, 1, 2, 0) + "\r\n")
		c.End()
	}), Status: 502, Spoilt: true},
	{Name: "a web server's record", Script: reads(func(c *Conn) { c.Record(5, 1, "echo", 4) }),
		Status: 502, Spoilt: true},
	{Name: "HTTP instead", Script: reads(func(c *Conn) {
		c.Raw("HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n")
	}), Status: 502, Spoilt: true},
	{Name: "less than a header, of nothing",
		Script: reads(func(c *Conn) { c.Raw("oops"); c.Close() }), Status: 502},

	// STDOUT in odd pieces.
	good("empty STDOUT first", []string{"", okHead + "hello"}, "hello"),
	good("empty STDOUT in between", []string{okHead + "hel", "", "lo"}, "hello"),
	good("empty STDOUT in the header", []string{okHead[:9], "", okHead[9:] + "hello"}, "hello"),
	good("empty STDOUT last", []string{okHead + "hello", ""}, "hello"),
	{Name: "byte by byte, padding 255", Script: reads(func(c *Conn) {
		for _, b := range []byte(okHead + "hello") {
			c.Record(6, 1, string(rune(b)), 255)
		}
		c.End()
	}), Status: 200, Body: "hello", Fields: []string{"Content-Type: text/plain"}},
	{Name: "byte by byte on the wire", Script: reads(func(c *Conn) {
		c.Bytewise(0)
		c.Stdout(okHead+"hello", "")
		c.End()
	}), Status: 200, Body: "hello"},
	{Name: "records of 65535 and 255", Script: reads(func(c *Conn) {
		c.Stdout(okHead)
		c.Record(6, 1, strings.Repeat("x", 65535), 255)
		c.End()
	}), Status: 200, Body: strings.Repeat("x", 65535)},

	// STDERR.
	{Name: "STDERR everywhere", Script: reads(func(c *Conn) {
		c.Stderr("PHP message: one\n")
		c.Stdout(okHead[:9])
		c.Stderr("PHP message: two\x1b[31m\r\nforged line")
		c.Stdout(okHead[9:] + "hel")
		c.Stderr("PHP message: three", "")
		c.Stdout("lo")
		c.Stderr("PHP message: four")
		c.End()
	}), Status: 200, Body: "hello"},
	{Name: "240 KB of STDERR before the header", Script: reads(func(c *Conn) {
		c.Stderr(strings.Repeat("Notice: 0123456789\n", 240<<10/19))
		c.Stdout(okHead + "hello")
		c.End()
	}), Status: 200, Body: "hello"},
	{Name: "STDERR, then empty STDOUT", Script: reads(func(c *Conn) {
		c.Stderr("x")
		c.Stdout("",
			okHead+"hello")
		c.End()
	}), Status: 200, Body: "hello"},
	{Name: "STDERR alone",
		Script: reads(func(c *Conn) { c.Stderr("Primary script unknown"); c.End() }), Status: 502},

	// The header.
	good("LF", []string{"Content-Type: text/plain\nX: y\n\nhello"}, "hello",
		"Content-Type: text/plain", "X: y"),
	good("LF and CRLF", []string{"Content-Type: text/plain\nX: y\r\n\nhello"}, "hello", "X: y"),
	good("empty header", []string{"\r\nhello"}, "hello", "Content-Type"),
	refused("just a body", "hello"), refused("just a page", "<html>\n<body>\n\nhello"),
	refused("no blank line", "Content-Type: text/plain\r\n"),
	refused("bare CR", "X: a\rb\r\n\r\nhello"), refused("NUL", "X: a\x00b\r\n\r\nhello"),
	refused("control", "X: a\x1bb\r\n\r\nhello"),
	refused("folded line", "X: a\r\n b\r\n\r\nhello"),
	refused("space before the colon", "X : a\r\n\r\nhello"),
	refused("no colon", "X: a\r\nb\r\n\r\nhello"),
	refused("status line", "HTTP/1.1 404 Nope\r\nX: a\r\n\r\nhello"),
	refused("Status 99", "Status: 99\r\n\r\n"),
	refused("Status 101",
		"Status: 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n"),
	good("Status 103", []string{"Status: 103 Early Hints\r\nLink: </a>\r\n\r\nhello"}, "hello",
		"Link: </a>", "Status"),
	good("Status 100", []string{"Status: 100 Continue\r\n\r\nhello"}, "hello"),
	{Name: "Status 600", Script: says("Status: 600\r\n\r\nhello"), Status: 600, Body: "hello"},
	refused("Status 1000", "Status: 1000\r\n\r\n"),
	refused("Status 200abc", "Status: 200abc\r\n\r\n"),
	refused("two Status", "Status: 200\r\nStatus: 404\r\n\r\n"),
	{Name: "Status", Script: says("Status: 404 Not Here\r\n\r\nhello"), Status: 404, Body: "hello",
		Fields: []string{"Status"}},
	{Name: "Status without a name", Script: says("Status: 599\r\n\r\nhello"), Status: 599,
		Body: "hello"},
	{Name: "Location", Script: says("Location: /x\r\n\r\n"), Status: 302,
		Fields: []string{"Location: /x"}},
	{Name: "Location and Status", Script: says("Status: 201 Created\r\nLocation: /x\r\n\r\n"),
		Status: 201, Fields: []string{"Location: /x"}},
	good("two Content-Types",
		[]string{"Content-Type: text/plain\r\nContent-Type: text/html\r\n\r\nhello"}, "hello",
		"Content-Type: text/plain"),
	good("empty Content-Type", []string{"Content-Type:\r\n\r\nhello"}, "hello", "Content-Type"),
	good("Content-Length", []string{"Content-Length: 5\r\n\r\nhello"}, "hello",
		"Content-Length: 5"),
	good("the same Content-Length twice",
		[]string{"Content-Length: 5\r\nContent-Length: 5\r\n\r\nhello"}, "hello",
		"Content-Length: 5"),
	refused("two Content-Lengths", "Content-Length: 5\r\nContent-Length: 3\r\n\r\nhello"),
	refused("Content-Length and Transfer-Encoding",
		"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"),
	good("negative Content-Length", []string{"Content-Length: -5\r\n\r\nhello"}, "hello"),
	good("Content-Length of letters", []string{"Content-Length: abc\r\n\r\nhello"}, "hello"),
	good("huge Content-Length", []string{"Content-Length: 99999999999999999999\r\n\r\nhello"},
		"hello"),
	good("Transfer-Encoding", []string{"Transfer-Encoding: gzip\r\n\r\nhello"}, "hello"),
	good("hop by hop",
		[]string{"Connection: X-Hop, close\r\nKeep-Alive: timeout=99\r\nUpgrade: h2c\r\n" +
			"Trailer: X\r\nTE: gzip\r\n" +
			"Proxy-Authenticate: Basic\r\nX-Hop: y\r\nX-Stays: z\r\n\r\nhello"}, "hello",
		"Keep-Alive", "Upgrade", "Trailer", "TE", "Proxy-Authenticate", "X-Hop", "X-Stays: z"),
	good("header of 40 KB", []string{"X-Big: " + strings.Repeat("x", 40<<10) + "\r\n\r\nhello"},
		"hello", "X-Big: "+strings.Repeat("x", 40<<10)),
	good("header in 20 records",
		append(strings.SplitAfter(strings.Repeat(field, 20), "\n"), "\r\nhello"), "hello"),
	refused("header of 100 KB in one field",
		"X-Big: "+strings.Repeat("x", 100<<10)+"\r\n\r\nhello"),
	{Name: "header of 100 KB in 100 records", Script: says(strings.SplitAfter(
		strings.Repeat(field, 100)+"\r\nhello", "\n")...), Status: 502},
	{Name: "endless header", Script: reads(func(c *Conn) {
		for {
			c.Stdout("X-More: " + strings.Repeat("x", 8000) + "\r\n")
		}
	}), Status: 502},

	// The two directions at once.
	{Name: "answers before it reads, and closes", Post: 5 << 20, Script: func(c *Conn) {
		c.ReadHead()
		c.Stdout("Status: 413\r\n\r\nhello")
		c.End()
		c.Sleep(Timeout / 2)
		c.Close()
	}, Status: 413, Body: "hello", Spoilt: true},
	{Name: "answers before it reads", Post: 5 << 20, Script: func(c *Conn) {
		c.ReadHead()
		c.Stdout(okHead + "hello")
		c.End()
		c.Gone(10 * time.Second)
	}, Status: 200, Body: "hello"},
	{Name: "echoes while it reads", Post: 4 << 20, Script: func(c *Conn) {
		c.ReadHead()
		c.Stdout(okHead)
		c.Echo()
		c.End()
		c.Gone(10 * time.Second)
	}, Status: 200, Echo: true},
	{Name: "writes 2 MB, then reads", Post: 2 << 20, Script: func(c *Conn) {
		c.ReadHead()
		c.Stdout(okHead + strings.Repeat("x", 2<<20))
		c.Drain()
		c.End()
		c.Gone(10 * time.Second)
	}, Status: 200, Body: strings.Repeat("x", 2<<20)},

	// Time.
	{Name: "never answers", Timeout: Timeout, Script: reads(func(c *Conn) { c.NeverRead() }),
		Status: 504},
	{Name: "never reads", Post: 8 << 20, Timeout: Timeout, Script: (*Conn).NeverRead, Status: 504},
	{Name: "stops in the header", Timeout: Timeout,
		Script: reads(func(c *Conn) { c.Stdout(okHead[:5]) }), Status: 504},
	{Name: "stops in the body", Timeout: Timeout, Script: reads(func(c *Conn) {
		c.Stdout(okHead + "hel")
	}), Status: 200, Cut: true},
	{Name: "stops before the end", Timeout: Timeout,
		Script: reads(func(c *Conn) { c.Stdout(okHead+"hello", "") }), Status: 200, Cut: true},
	{Name: "gaps, longer than the time-out in all", Timeout: patience, Script: reads(func(c *Conn) {
		c.Stdout(okHead)
		for range patience/gap + 5 {
			c.Sleep(gap)
			c.Stdout(".")
		}
		c.End()
	}), Status: 200, Body: strings.Repeat(".", int(patience/gap+5))},
	{Name: "gaps on STDERR alone", Timeout: patience, Script: reads(func(c *Conn) {
		for range patience/gap + 5 {
			c.Sleep(gap)
			c.Stderr("working")
		}
		c.Stdout(okHead + "hello")
		c.End()
	}), Status: 200, Body: "hello"},
}
