package conn_test

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
)

// TestBodyReadBefore: what reads a body again says that this is the program's mistake, and not that
// the client has sent nothing.
func TestBodyReadBefore(t *testing.T) {
	const (
		parts  = "multipart/form-data; boundary=x"
		fields = "application/x-www-form-urlencoded"
	)
	var v struct{ A string }
	read := map[string]func(req *conn.Request) error{
		"Parts": func(req *conn.Request) error {
			for _, err := range req.Parts() {
				if err != nil {
					return err
				}
			}
			return nil
		},
		"first part": func(req *conn.Request) error {
			for _, err := range req.Parts() {
				return err
			}
			return nil
		},
		"Form": func(req *conn.Request) error { _, err := req.Form(); return err },
		"MultipartForm": func(req *conn.Request) error {
			_, err := req.MultipartForm(1 << 10)
			return err
		},
		"BindForm": func(req *conn.Request) error { return req.BindForm(&v) },
		"BindJSON": func(req *conn.Request) error { return req.BindJSON(&v) },
		"Body":     func(req *conn.Request) error { _, err := io.ReadAll(req.Body()); return err },
	}
	for _, row := range []struct{ kind, body, first, second string }{
		{parts, "--x\r\n\r\na\r\n--x--", "Parts", "Parts"},
		{parts, "--x\r\n\r\na\r\n--x--", "first part", "Parts"},
		{parts, "--x\r\n\r\na\r\n--x--", "Parts", "MultipartForm"},
		{parts, "--x\r\n\r\na\r\n--x--", "Parts", "BindForm"},
		{parts, "--x\r\n\r\na\r\n--x--", "MultipartForm", "Parts"},
		{parts, "--x\r\n\r\na\r\n--x--", "Body", "Parts"},
		{fields, "a=1", "Body", "Form"},
		{fields, "a=1", "Body", "BindForm"},
		{"application/json", "{}", "BindJSON", "BindJSON"},
		{"application/json", "{}", "Body", "BindJSON"},
	} {
		t.Run(fmt.Sprint(row.first, " and ", row.second), func(t *testing.T) {
			s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
				if err := read[row.first](req); err != nil {
					return resp.Error(400, err)
				}
				err := read[row.second](req)
				if !errors.Is(err, conn.ErrBodyRead) {
					t.Error(err)
				}
				return resp.Error(400, err)
			}})
			c := s.Dial()
			for _, raw := range []string{withBody(row.kind, row.body), inChunks(row.kind, row.body)} {
				a := c.Do("POST", raw)
				if a.StatusCode != 500 ||
					!strings.Contains(s.Log.String(), "has read the request body before") {
					t.Errorf("%s %q\n%s", a.Status, a.Text, s.Log)
				}
			}
		})
	}
}
