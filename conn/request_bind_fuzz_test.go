package conn_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"mime/multipart"
	"net"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
)

// FuzzBindJSON: what BindJSON takes is JSON, what it refuses is not, or is too deep, and the error
// says where.
func FuzzBindJSON(f *testing.F) {
	for _, s := range []string{`{"a": [1, "x\"[", null]}`, "[", "", " \n", "[[[[]]]]", `"\\"`, "1 2",
		"{\"a\":\n\x00}", "\xff",
		strings.Repeat("[", 257) + strings.Repeat("]", 257),
		strings.Repeat(`{"a":`, 256) + "1" + strings.Repeat("}", 256)} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		var loose, strict any
		err, strictly := conn.DecodeJSON([]byte(text), &loose, false), conn.DecodeJSON([]byte(text),
			&strict, true)
		if (err == nil) != (strictly == nil) { // a value of no struct has no unknown fields
			t.Errorf("%v, strictly %v", err, strictly)
		}
		if err == nil {
			if !json.Valid([]byte(text)) {
				t.Error("taken, and no JSON")
			}
			return
		}
		var bad *conn.BindError
		if !errors.As(err, &bad) || bad.Status != 400 || len(err.Error()) > 300 {
			t.Fatalf("%T %v", err, err)
		}
		if json.Valid([]byte(text)) && !strings.Contains(err.Error(), "more than 256 levels") {
			var v any
			if json.Unmarshal([]byte(text), &v) == nil {
				t.Errorf("refused: %v", err)
			}
		}
	})
}

// FuzzBindValues: whatever a query is, fields are set or the error is one for the client.
func FuzzBindValues(f *testing.F) {
	for _, s := range []string{"q=x&n=1&n=2&on=on&d=1m&at=2026-11-22T00:00:00Z", "q=", "n=&n=256&q=x",
		"q=%zz", "on=maybe&q=1", "d=-1&q=;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, query string) {
		values, err := url.ParseQuery(query)
		if err != nil {
			return
		}
		before := maps.Clone(values)
		var in struct {
			Q  string        `form:"q,required"`
			N  []uint8       `form:"n"`
			On bool          `form:"on"`
			D  time.Duration `form:"d"`
			At *time.Time    `form:"at"`
			F  float32       `form:"f"`
		}
		err = conn.BindValues(&in, values)
		var bad *conn.BindError
		switch {
		case err == nil && (in.Q == "" || in.Q != values.Get("q")):
			t.Errorf("%q of %q", in.Q, query)
		case err != nil && (!errors.As(err, &bad) || bad.Status != 400 || bad.Field == "" ||
			len(err.Error()) > 600):
			t.Errorf("%T %v", err, err)
		}
		if !maps.EqualFunc(before, values, slices.Equal) {
			t.Error("the values were changed")
		}
	})
}

// FuzzParts: the parts of a body, as it comes from a client, and what reading them fails with, are
// those that package mime/multipart finds in the same bytes. A part that cannot be read is the last
// one, and an error of Parts is one for the client.
func FuzzParts(f *testing.F) {
	for _, s := range []string{
		"--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\nb\r\n--x\r\nContent-Disposition: " +
			"form-data; name=f; filename=\"c\"\r\n\r\n\r\n--x--\r\n",
		"before\r\n--x\r\n\r\n--x", "--x--", "", "--x\nA: b\n\nc\n--x--\n", "--x\r\n\r\n@@\r\n--x@--",
		"--x\r\nno field\r\n\r\n--x--",
		"--x\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n=41=\r\n\r\n--x--",
		// Two that end within a part, and two with a part that cannot be decoded.
		"--x\r\n\r\nb", "--x\r\n\r\nb\r\n--",
		"--x\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\nb\x01\r\n--x\r\n\r\nc\r\n--x--",
		"--x\r\n\r\n@@\r\n--x\r\nContent-Transfer-Encoding: quoted-printable\r\n\r\n\x01\n" +
			strings.Repeat("c", 900) + "\r\n--x--",
	} {
		f.Add(s)
	}
	// collect is for both sides. It asks for the next part behind one that cannot be read, too.
	collect := func(all iter.Seq2[*multipart.Part, error]) (string, error) {
		var b strings.Builder
		for part, err := range all {
			if err != nil {
				return b.String(), err
			}
			text, err := io.ReadAll(part)
			fmt.Fprintf(&b, "%q %q %q %v\n", part.FormName(), part.FileName(), text, err)
		}
		return b.String(), nil
	}
	s := start(f, modes.OverUNIX,
		conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			text, err := collect(req.Parts())
			if err != nil {
				return resp.Text(400, fmt.Sprintf("%s%T", text, err))
			}
			return resp.Text(200, text)
		}})
	long := strings.Repeat("y", 20<<10)
	f.Fuzz(func(t *testing.T, body string) {
		if len(body) > 1<<10 {
			return
		}
		body = strings.Replace(body, "@", long, 3)
		status := 200
		want, err := collect(func(yield func(*multipart.Part, error) bool) {
			parts := multipart.NewReader(strings.NewReader(body), "x")
			for {
				part, err := parts.NextPart()
				if err == io.EOF || !yield(part, err) {
					return
				}
				if _, err := io.Copy(io.Discard, part); err != nil {
					yield(nil, err)
					return
				}
			}
		})
		if err != nil {
			status, want = 400, want+"*conn.BindError"
		}
		raws := []string{withBody("multipart/mixed; boundary=x", body)}
		if len(body) <= 1<<10 {
			raws = append(raws, inChunks("multipart/mixed; boundary=x", body))
		}
		for _, raw := range raws {
			below := must.Get(net.Dial("unix", s.Addr))(t)
			c := server.NewClient(t, below)
			if a := c.Do("POST", raw); a.StatusCode != status || a.Text != want {
				t.Errorf("%d %q\nwant %d %q", a.StatusCode, a.Text, status, want)
			}
			c.Close()
		}
	})
}
