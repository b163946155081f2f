package http1_test

import (
	"bufio"
	"bytes"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/test/headrows"
	"github.com/lwango/lwango/internal/wire/http1"
)

// naive reads an accepted head again, line by line, with nothing clever. It is what the rules on
// framing and hosts look like.
func naive(t *testing.T, h *http1.Head, head []byte) {
	text := strings.TrimLeft(string(head), "\r\n")
	lines := strings.Split(text, "\r\n")
	if strings.ContainsAny(strings.Join(lines, ""), "\r\n\x00") ||
		!strings.HasSuffix(text, "\r\n\r\n") {
		t.Fatal("line ends or NUL let pass")
	}
	parts := strings.Split(lines[0], " ")
	if len(parts) != 3 || parts[0] != string(h.Name.Of(head)) ||
		h.Method != http1.Other && parts[0] != h.Method.String() ||
		parts[1] != string(h.Target.Of(head)) || parts[2][:7] != "HTTP/1." ||
		(parts[2] == "HTTP/1.0") != (h.Minor == 0) {
		t.Fatalf("request line: %q", parts)
	}
	var list, connection []string
	count := map[string]int{}
	value := map[string]string{}
	for _, l := range lines[1 : len(lines)-2] {
		name, v, ok := strings.Cut(l, ":")
		if !ok || !http1.ValidToken(name) {
			t.Fatalf("field line: %q", l)
		}
		v = strings.Trim(v, " \t")
		list = append(list, name+":"+v)
		name = ascii.ToLower(name)
		count[name]++
		value[name] = v
		if name == "connection" {
			for _, o := range strings.Split(v, ",") {
				connection = append(connection, ascii.ToLower(strings.Trim(o, " \t")))
			}
		}
	}
	if !slices.Equal(list, fields(h, head)) {
		t.Fatalf("fields %q, want %q", fields(h, head), list)
	}
	if count["host"] > 1 || count["host"] == 0 && h.Minor == 1 {
		t.Fatal("Host fields:", count["host"])
	}
	length, coding := count["content-length"], count["transfer-encoding"]
	if length+coding > 1 || coding == 1 && h.Minor == 0 {
		t.Fatal("framing fields:", length, coding)
	}
	if h.Chunked != (coding == 1) ||
		h.Chunked && !ascii.EqualFold(value["transfer-encoding"], "chunked") {
		t.Fatal("chunked is wrong")
	}
	if n, err := strconv.ParseUint(value["content-length"], 10, 63); length == 1 &&
		(err != nil || h.ContentLength != int64(n)) || length == 0 && h.ContentLength != -1 {
		t.Fatal("length is wrong")
	}
	if h.Close != slices.Contains(connection, "close") ||
		h.KeepAlive != slices.Contains(connection, "keep-alive") {
		t.Fatal("connection options are wrong")
	}
}

// peer compares with net/http: whatever both accept, they must frame alike, or one of them could be
// smuggled past the other.
func peer(t *testing.T, h *http1.Head, head []byte) {
	req, err := http.ReadRequest(
		bufio.NewReader(strings.NewReader(strings.TrimLeft(string(head), "\r\n"))))
	if err != nil {
		return // it parses the path as a URL and refuses more there
	}
	if h.Chunked != slices.Equal(req.TransferEncoding, []string{"chunked"}) {
		t.Fatalf("net/http has Transfer-Encoding %q", req.TransferEncoding)
	}
	if !h.Chunked && max(h.ContentLength, 0) != req.ContentLength {
		t.Fatalf("net/http has Content-Length %d", req.ContentLength)
	}
	host := string(h.Host.Of(head))
	if h.Absolute || h.Method == http1.CONNECT {
		host, _ = url.PathUnescape(host) // net/http decodes it
	}
	if string(h.Name.Of(head)) != req.Method || host != req.Host {
		t.Fatalf("net/http has %s, host %q", req.Method, req.Host)
	}
}

func FuzzHead(f *testing.F) {
	for _, tt := range headrows.Good {
		f.Add([]byte(tt.Raw), uint(7))
	}
	for _, tt := range headrows.Bad {
		f.Add([]byte(tt.Raw), uint(20))
	}
	f.Add([]byte("GET / HTTP/1.1\r\nHost: a\r\nConnection: \u212aeep-alive\r\n\r\n"), uint(3))
	f.Add([]byte("GET http://a%C3%A9/ HTTP/1.1\r\nHost: a\r\n\r\n"), uint(3))
	f.Fuzz(func(t *testing.T, raw []byte, cut uint) {
		var whole, split, bytewise http1.Head
		n, err := whole.Parse(raw)
		if n2, err2 := parse(&split, string(raw), int(cut%uint(len(raw)+1))); n2 != n || err2 != err {
			t.Fatalf("whole: %d, %v; split: %d, %v", n, err, n2, err2)
		}
		if n2, err2 := parse(&bytewise, string(raw), everyByte(string(raw))...); n2 != n || err2 != err {
			t.Fatalf("whole: %d, %v; byte by byte: %d, %v", n, err, n2, err2)
		}
		if n == 0 {
			return
		}
		head := raw[:n]
		want := describe(&whole, head)
		if got := describe(&bytewise, head); got != want ||
			!bytes.Equal(split.Path.Of(head), whole.Path.Of(head)) {
			t.Fatalf("whole %s\nsplit %s", want, got)
		}
		naive(t, &whole, head)
		peer(t, &whole, head)
	})
}
