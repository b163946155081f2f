package servefiles

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/internal/wire/http1"
)

// listingBody is the body of a listing. It is written piece by piece, as the client takes it. It
// belongs to one request.
type listingBody struct {
	m    *module
	l    *listing // nil: after Close, and for HEAD
	path string   // of the folder, as the client sees it
	top  bool     // it is the route's own folder, whose parent is another route's
	json bool

	part   listingPart // which is next
	next   int         // entry
	buf    []byte
	unread []byte // of buf or of the readme, not read yet
}

// listingPart is a part of a page, in order. JSON has no readme and no foot.
type listingPart int

const (
	listingHead listingPart = iota
	listingRows
	listingEnd
	listingReadme // is shared by all who read the listing
	listingFoot
	listingDone
)

// Close gives the listing up.
func (b *listingBody) Close() error {
	if b.l != nil {
		b.m.listings.release(b.l)
		b.l = nil
	}
	return nil
}

// A piece of entries is bounded in time, an entry takes a microsecond or two, and in bytes, because
// each slow client holds one.
const (
	entriesPerPiece = 64
	bytesPerPiece   = 8 << 10
)

// Read gives the next bytes.
func (b *listingBody) Read(p []byte) (int, error) {
	for len(b.unread) == 0 {
		switch b.part {
		case listingDone:
			return 0, io.EOF
		case listingReadme:
			b.unread, b.part = b.l.text, listingFoot
		default:
			b.buf = b.piece(b.buf[:0])
			b.unread = b.buf
		}
	}
	n := copy(p, b.unread)
	b.unread = b.unread[n:]
	return n, nil
}

func (b *listingBody) piece(out []byte) []byte {
	begin, row, end := b.htmlBegin, b.htmlRow, b.htmlEnd
	if b.json {
		begin, row, end = b.jsonBegin, b.jsonRow, b.jsonEnd
	}
	switch b.part {
	case listingHead:
		b.part = listingRows
		return begin(out)
	case listingRows:
		rows := b.l.entries[b.next:min(b.next+entriesPerPiece, len(b.l.entries))]
		for i := 0; i < len(rows) && len(out) < bytesPerPiece; i++ {
			out = row(out, &rows[i])
			b.next++
		}
		if b.next == len(b.l.entries) {
			b.part = listingEnd
		}
		return out
	case listingEnd:
		b.part = listingDone
		if !b.json && len(b.l.text) > 0 {
			b.part = listingReadme
		}
		return end(out)
	}
	b.part = listingDone
	return append(out, "</pre>\n</html>\n"...)
}

func (b *listingBody) htmlBegin(out []byte) []byte {
	out = append(out, `<!doctype html>
<html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark"><meta name="robots" content="noindex">
<style>body{font:1rem system-ui,sans-serif;margin:1rem}th{text-align:left}
th,td{padding:.1rem 1rem .1rem 0}.n{text-align:right;white-space:nowrap}
button{all:unset;color:LinkText;cursor:pointer;text-decoration:underline}
button:focus-visible{outline:auto}</style>
<title>`...)
	out = appendText(out, b.path)
	out = append(out, "</title>\n<h1><bdi>"...)
	out = appendText(out, b.path)
	// Buttons and not links: a program that copies the folder (wget -r) follows all links, and would
	// get the listing of each folder in each order.
	out = append(out, "</bdi></h1>\n<form id=\"sort\"></form>\n<table>\n<tr>"...)
	for _, column := range []struct{ by, class, title string }{
		{"name", "", "Name"}, {"size", ` class="n"`, "Size"}, {"date", ` class="n"`, "Date (UTC)"},
	} {
		to, mark := column.by, ""
		switch string(b.l.by) {
		case column.by:
			to, mark = "-"+column.by, " &#8593;"
		case "-" + column.by:
			mark = " &#8595;"
		}
		out = fmt.Appendf(out, `<th%s><button form="sort" name="sort" value="%s">%s</button>%s`,
			column.class, to, column.title, mark)
	}
	if !b.top {
		out = append(out, "\n<tr><td><a href=\"../\">../</a><td><td>"...)
	}
	return append(out, '\n')
}

func (b *listingBody) htmlRow(out []byte, e *entry) []byte {
	out = append(out, `<tr><td><a href="`...)
	out = appendHref(out, e)
	out = append(out, `"><bdi>`...)
	out = appendText(out, e.name)
	out = append(out, "</bdi>"...)
	if e.folder {
		out = append(out, '/')
	}
	out = append(out, `</a><td class="n">`...)
	if e.known && !e.folder {
		out = appendSize(out, e.size)
	}
	out = append(out, `<td class="n">`...)
	if e.dated {
		out = time.Unix(e.modified, 0).UTC().AppendFormat(out, "2006-01-02 15:04")
	}
	return append(out, '\n')
}

func (b *listingBody) htmlEnd(out []byte) []byte {
	out = append(out, "</table>\n"...)
	if n := len(b.l.entries); n < b.l.total {
		out = fmt.Appendf(out, "<p>Only the first %d of %d entries are shown.</p>\n", n, b.l.total)
	}
	if len(b.l.text) > 0 {
		out = append(out, "<h2>"...)
		out = appendText(out, b.l.readme)
		return append(out, "</h2>\n<pre>"...)
	}
	return append(out, "</html>\n"...)
}

func (b *listingBody) jsonBegin(out []byte) []byte {
	path, _ := json.Marshal(b.path)
	return fmt.Appendf(out, "{\"path\": %s, \"total\": %d, \"entries\": [", path, b.l.total)
}

func (b *listingBody) jsonRow(out []byte, e *entry) []byte {
	if e != &b.l.entries[0] {
		out = append(out, ',')
	}
	name, _ := json.Marshal(e.name) // bytes that are no UTF-8 become U+FFFD
	out = append(out, "\n{\"name\": "...)
	out = append(out, name...)
	out = append(out, `, "href": "`...)
	out = appendHref(out, e)
	kind := "file"
	if e.folder {
		kind = "folder"
	}
	out = append(append(out, `", "type": "`...), kind...)
	out = append(out, '"')
	if e.known && !e.folder {
		out = strconv.AppendInt(append(out, `, "size": `...), e.size, 10)
	}
	if e.dated {
		out = append(out, `, "modified": "`...)
		out = time.Unix(e.modified, 0).UTC().AppendFormat(out, time.RFC3339)
		out = append(out, '"')
	}
	return append(out, '}')
}

func (b *listingBody) jsonEnd(out []byte) []byte { return append(out, "\n]}\n"...) }

// appendHref appends a relative reference to e. It escapes all bytes but the unreserved ones (RFC
// 3986 section 2.3), so it needs no other escaping in HTML and in JSON. The "./" keeps a colon in a
// name from ending a scheme.
func appendHref(out []byte, e *entry) []byte {
	out = append(out, "./"...)
	for i := range len(e.name) {
		c := e.name[i]
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '.',
			c == '_', c == '~':
			out = append(out, c)
		default:
			out = http1.AppendPercent(out, c)
		}
	}
	if e.folder {
		out = append(out, '/')
	}
	return out
}

// appendText appends text for HTML, outside of tags. Bytes that are no UTF-8, and control
// characters other than those of lines, become U+FFFD.
func appendText(out []byte, s string) []byte {
	for _, c := range s {
		switch {
		case c == '<':
			out = append(out, "&lt;"...)
		case c == '>':
			out = append(out, "&gt;"...)
		case c == '&':
			out = append(out, "&amp;"...)
		case c == '"':
			out = append(out, "&#34;"...)
		case c == '\'':
			out = append(out, "&#39;"...)
		case c == '\n', c == '\t':
			out = append(out, byte(c))
		case c == '\r':
		case c < ' ', c >= 0x7f && c < 0xa0:
			out = utf8.AppendRune(out, utf8.RuneError)
		default:
			out = utf8.AppendRune(out, c)
		}
	}
	return out
}

// appendSize appends a length as people read it.
func appendSize(out []byte, n int64) []byte {
	if n < 1024 {
		return append(strconv.AppendInt(out, n, 10), " B"...)
	}
	f, units := float64(n)/1024, "KMGTPE"
	for ; f >= 1023.95; units = units[1:] {
		f /= 1024
	}
	return append(strconv.AppendFloat(out, f, 'f', 1, 64), ' ', units[0], 'i', 'B')
}
