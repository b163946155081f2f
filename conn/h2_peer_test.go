package conn_test

import (
	"fmt"
	"hash/crc32"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/http2"
)

// standard2 returns the address of a server of net/http.
func standard2(f *testing.F) string {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		f.Fatal(err)
	}
	s := &http.Server{Handler: http.HandlerFunc(tell2), Protocols: new(http.Protocols),
		ErrorLog: log.New(io.Discard, "", 0)}
	s.Protocols.SetUnencryptedHTTP2(true)
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ln) }()
	f.Cleanup(func() { s.Close(); <-ended })
	return ln.Addr().String()
}

// tell2 answers with what it sees of a request, in a field, and with content of a fixed length. It
// does not tell what net/http's server gives its handlers in another way over HTTP/2 than over
// HTTP/1.1, and the bridge in the latter for both: it leaves Host, takes Expect and Trailer away,
// and drops trailers that were not announced.
func tell2(w http.ResponseWriter, r *http.Request) {
	announced := maps.Clone(r.Trailer)
	body, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, "body", http.StatusBadRequest)
		return
	}
	var seen []string
	for name, values := range r.Header {
		if name == "Host" || name == "Expect" || name == "Trailer" {
			continue
		}
		seen = append(seen, fmt.Sprintf("%s=%q", strings.ToLower(name), values))
	}
	for name := range announced {
		if values := r.Trailer[name]; values != nil {
			seen = append(seen, fmt.Sprintf("trailer %s=%q", strings.ToLower(name), values))
		}
	}
	slices.Sort(seen)
	w.Header().Set("Content-Type", "text/plain")
	w.Header().Add("X-Two", "1")
	w.Header().Add("X-Two", "2")
	w.Header().Set("X-Seen", fmt.Sprintf("%s %s %s %d %d %08x %s", r.Method, r.RequestURI, r.Host,
		r.ContentLength, len(body), crc32.ChecksumIEEE(body), seen))
	io.WriteString(w, strings.Repeat("content ", bodySize2/8))
}

// bodySize2 is more than the small windows of a script ever come to together, so that an answer
// either ends or waits.
const bodySize2 = 1000

// silence2 is how long a server may take for a whole script.
const silence2 = 10 * time.Second

// A peer2 is a connection to one of the two servers.
type peer2 struct {
	*raw2
	dec   http2.Decoder
	seen  map[uint32]*answer2
	ended string // how the connection has
}

// An answer2 is what has come on a stream.
type answer2 struct {
	status, fields, end string
	body                []byte
}

func dialPeer2(t *testing.T, addr string) *peer2 {
	c := must.Get(net.Dial("tcp", addr))(t)
	_ = c.(*net.TCPConn).SetLinger(0)
	_ = c.SetDeadline(time.Now().Add(silence2))
	p := &peer2{raw2: &raw2{t: t, Conn: c, out: []byte(http2.Preface)}, seen: map[uint32]*answer2{}}
	p.frame(http2.SettingsFrame, 0, 0, "")
	return p
}

// step takes the next frame of the server. It reports whether that answers the PING.
func (p *peer2) step(ping string) bool {
	h, payload := p.next()
	switch h.Type {
	case 255:
		p.ended = "end"
		if payload != nil {
			p.ended = "silence"
		}
	case http2.GoAway:
		p.ended = "GOAWAY " + http2.Code(http2.Uint32(payload[4:])).String()
	case http2.SettingsFrame:
		if h.Flags&http2.Ack == 0 {
			p.frame(http2.SettingsFrame, http2.Ack, 0, "").flush()
		}
	case http2.Ping:
		if h.Flags&http2.Ack != 0 {
			return string(payload) == ping
		}
		p.frame(http2.Ping, http2.Ack, 0, string(payload)).flush()
	case http2.Headers, http2.Data, http2.RSTStream:
		a := p.answer(h.Stream)
		if a.end != "" {
			a = new(answer2) // what comes behind the end is no part of the answer
		}
		switch h.Type {
		case http2.Headers:
			p.head(a, payload)
		case http2.Data:
			a.body = append(a.body, payload...)
		case http2.RSTStream:
			a.end = "RST_STREAM " + http2.Code(http2.Uint32(payload)).String()
		}
		if h.Type != http2.RSTStream && h.Flags&http2.EndStream != 0 {
			a.end = "END_STREAM"
		}
	}
	return false
}

func (p *peer2) answer(id uint32) *answer2 {
	a := p.seen[id]
	if a == nil {
		a = new(answer2)
		p.seen[id] = a
	}
	return a
}

// reset reports whether the server has reset the stream.
func (p *peer2) reset(s *sent2) bool { return strings.HasPrefix(p.answer(s.id).end, "RST") }

// head takes the fields of an answer. Those that name the server or the time do not count.
func (p *peer2) head(a *answer2, block []byte) {
	var f http2.Fields
	f.Reset(1 << 20)
	if err := p.dec.Decode(block, &f); err != nil {
		p.ended = err.Error()
		return
	}
	var all []string
	status := ""
	for _, field := range f.List {
		name, value := string(field.Name.Of(f.Buf)), string(field.Value.Of(f.Buf))
		switch name {
		case ":status":
			status = value
		case "date", "server":
		default:
			all = append(all, name+": "+value)
		}
	}
	if status[0] != '1' {
		slices.Sort(all)
		a.status, a.fields = status, strings.Join(all, "\n")
	}
}

// refused2 reports whether a request was refused. How that is done differs: a malformed one is a
// stream error, and a server may answer it as well (RFC 9113 section 8.1.1). net/http answers
// fields of the connection with 400, and lets the handler see the error of a body that is too
// short.
func (a *answer2) refused2() bool {
	switch a.status {
	case "":
		return a.end == "RST_STREAM PROTOCOL_ERROR"
	case "400", "405", "417", "421", "431", "501":
		return true
	}
	return false
}

func (a *answer2) String() string {
	return fmt.Sprintf("%s %q\n%s\n%d bytes", a.status, a.end, a.fields, len(a.body))
}
