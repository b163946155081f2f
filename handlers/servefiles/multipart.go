package servefiles

import (
	"crypto/rand"
	"fmt"
	"io"

	"github.com/lwango/lwango/internal/http1"
)

// multipart is the body of an answer with several ranges (RFC 9110 section 14.6): for each one a
// head and a piece of the file, read when it is sent. It belongs to one request.
type multipart struct {
	file   *opened
	pieces []piece
}

// piece is text, or length bytes of the file from offset.
type piece struct {
	text           string
	offset, length int64
}

// newMultipart lays out the body. Each part has the type of the whole file. It also returns the
// boundary and the exact length: a client that does not know whether its parts are complete cannot
// join them with others later.
func newMultipart(file *opened, ranges []http1.Range, contentType string,
	size int64) (m *multipart, boundary string, length int64) {
	// The boundary has 130 random bits, so the file is not searched for it.
	boundary = rand.Text()
	m = &multipart{file: file, pieces: make([]piece, 0, 2*len(ranges)+1)}
	for _, r := range ranges {
		head := fmt.Sprintf("\r\n--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n", boundary,
			contentType, contentRange(r, size))
		m.pieces = append(m.pieces, piece{text: head}, piece{offset: r.Start, length: r.Length})
		length += int64(len(head)) + r.Length
	}
	end := "\r\n--" + boundary + "--\r\n"
	m.pieces = append(m.pieces, piece{text: end})
	return m, boundary, length + int64(len(end))
}

// Read gives the next bytes of the body. If the file has become shorter, it returns
// io.ErrUnexpectedEOF.
func (m *multipart) Read(p []byte) (int, error) {
	for len(m.pieces) > 0 {
		next := &m.pieces[0]
		switch {
		case next.text != "":
			n := copy(p, next.text)
			next.text = next.text[n:]
			return n, nil
		case next.length > 0:
			n, err := m.file.readAt(p[:min(int64(len(p)), next.length)], next.offset)
			if err == io.EOF {
				err = io.ErrUnexpectedEOF
			}
			next.offset += int64(n)
			next.length -= int64(n)
			return n, err
		}
		m.pieces = m.pieces[1:]
	}
	return 0, io.EOF
}

// Close closes the file.
func (m *multipart) Close() error { return m.file.Close() }

func contentRange(r http1.Range, size int64) string {
	return string(http1.AppendContentRange(nil, r, size))
}
