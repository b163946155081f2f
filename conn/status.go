package conn

import (
	"net/http"
	"strconv"
)

var statusLines = func() (lines [600][]byte) {
	for code := range lines {
		if text := http.StatusText(code); text != "" {
			lines[code] = []byte("HTTP/1.1 " + strconv.Itoa(code) + " " + text + "\r\n")
		}
	}
	return lines
}()

// appendStatusLine appends a status line. It says HTTP/1.1 whatever the client speaks (RFC 9110
// section 6.2: a server sends its own version). An empty reason stands for the usual one.
func appendStatusLine(b []byte, status int, reason string) []byte {
	if reason == "" && status < len(statusLines) && statusLines[status] != nil {
		return append(b, statusLines[status]...)
	}
	b = append(b, "HTTP/1.1 "...)
	b = strconv.AppendInt(b, int64(status), 10)
	b = append(b, ' ') // not optional (RFC 9112 section 4)
	return append(append(b, reason...), "\r\n"...)
}

// appendErrorPage appends the page that a client sees of an error: the error's name, and nothing of
// the server's internals.
func appendErrorPage(b []byte, status int) []byte {
	title := strconv.Itoa(status)
	if text := http.StatusText(status); text != "" {
		title += " " + text
	}
	b = append(b,
		"<!doctype html>\n<html lang=\"en\"><meta charset=\"utf-8\">"+
			"<meta name=\"viewport\" content=\"width=device-width\">"+
			"<meta name=\"color-scheme\" content=\"light dark\">\n<title>"...)
	b = append(b, title...)
	b = append(b, "</title>\n<h1>"...)
	b = append(b, title...)
	return append(b, "</h1>\n</html>\n"...)
}
