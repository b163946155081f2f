// Package byteranges makes the bodies of answers with several ranges.
package byteranges

import (
	"crypto/rand"
	"fmt"
	"io"

	"github.com/lwango/lwango/internal/wire/http1"
)

// Body is the body of an answer with several ranges (RFC 9110 section 14.6): for each one a head
// and a piece of the content, read when it is sent. It belongs to one request.
type Body struct {
	content io.ReaderAt
	pieces  []piece
}

// piece is text, or length bytes of the content from offset.
type piece struct {
	text           string
	offset, length int64
}

// New lays out the body. Each part has the type of the whole content, if there is one. New also
// returns the boundary and the exact length: a client that does not know whether its parts are
// complete cannot join them with others later.
func New(content io.ReaderAt, ranges []http1.Range, contentType string,
	size int64) (m *Body, boundary string, length int64) {
	// The boundary has 130 random bits, so the content is not searched for it.
	boundary = rand.Text()
	m = &Body{content: content, pieces: make([]piece, 0, 2*len(ranges)+1)}
	if contentType != "" {
		contentType = "Content-Type: " + contentType + "\r\n"
	}
	for _, r := range ranges {
		head := fmt.Sprintf("\r\n--%s\r\n%sContent-Range: %s\r\n\r\n", boundary, contentType,
			ContentRange(r, size))
		m.pieces = append(m.pieces, piece{text: head}, piece{offset: r.Start, length: r.Length})
		length += int64(len(head)) + r.Length
	}
	end := "\r\n--" + boundary + "--\r\n"
	m.pieces = append(m.pieces, piece{text: end})
	return m, boundary, length + int64(len(end))
}

// Read gives the next bytes of the body. If the content has become shorter, it returns
// io.ErrUnexpectedEOF.
func (m *Body) Read(p []byte) (int, error) {
	for len(m.pieces) > 0 {
		next := &m.pieces[0]
		switch {
		case next.text != "":
			n := copy(p, next.text)
			next.text = next.text[n:]
			return n, nil
		case next.length > 0:
			n, err := m.content.ReadAt(p[:min(int64(len(p)), next.length)], next.offset)
			next.offset += int64(n)
			next.length -= int64(n)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
				if next.length == 0 {
					err = nil // the end of the content came with its last byte
				}
			}
			return n, err
		}
		m.pieces = m.pieces[1:]
	}
	return 0, io.EOF
}

// Close closes the content, if it can be closed.
func (m *Body) Close() error {
	if c, ok := m.content.(io.Closer); ok {
		return c.Close()
	}
	return nil
}

// ContentRange is the value of Content-Range for a range, and with the zero Range that of a 416.
func ContentRange(r http1.Range, size int64) string {
	return string(http1.AppendContentRange(nil, r, size))
}
