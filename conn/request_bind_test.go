package conn_test

import (
	"errors"
	"fmt"
	"io"
	"mime/multipart"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
)

// withBody is a request with a body, framed by its length.
func withBody(kind, body string) string {
	return fmt.Sprintf(
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nContent-Length: %d\r\n\r\n%s",
		kind, len(body), body)
}

// inChunks is withBody in chunks of a few bytes.
func inChunks(kind, body string) string {
	var b strings.Builder
	fmt.Fprintf(&b,
		"POST / HTTP/1.1\r\nHost: a\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", kind)
	for len(body) > 0 {
		n := min(len(body), 7)
		fmt.Fprintf(&b, "%x\r\n%s\r\n", n, body[:n])
		body = body[n:]
	}
	return b.String() + "0\r\n\r\n"
}

type order struct {
	Item  item      `json:"item"`
	Count uint8     `json:"count"`
	Rate  float64   `json:"rate"`
	Paid  bool      `json:"paid"`
	When  time.Time `json:"when"`
	Notes []string  `json:"notes"`
	Deep  any       `json:"deep"`
}

func TestBindJSON(t *testing.T) {
	deep := func(n int) string {
		return `{"deep":` + strings.Repeat("[", n-1) + strings.Repeat("]", n-1) + "}"
	}
	rows := []struct {
		body   string
		status int
		want   string // of the order as it is set, or of the error
	}{
		{`{"count":3,"item":{"name":"tea","price":7},"notes":["a"]}`, 200, "3 tea 7 [a]"},
		{" \r\n\t{\"COUNT\":3}\n ", 200, "3  0 []"},
		{`{"count":3,"other":[{"x":"[[\"{"}]}`, 200, "3  0 []"},
		{`null`, 200, "0  0 []"},
		{deep(256), 200, "0  0 []"},
		{``, 400, "expected JSON, not an empty body"},
		{" \n", 400, "expected JSON, not an empty body"},
		{deep(257), 400, "JSON, line 1, column 264: more than 256 levels"},
		{deep(10_000), 400, "JSON, line 1, column 264: more than 256 levels"},
		{strings.Repeat(`{"deep":`, 10_000), 400, "more than 256 levels"},
		{`{"count":3} {}`, 400, "JSON, line 1, column 13: "},
		{`{"count":3}x`, 400, "JSON, line 1, column 12: "},
		{"{\n  \"ä\": x}", 400,
			"JSON, line 2, column 8: invalid character 'x' looking for beginning of value"},
		{`{"count":`, 400, "JSON, line 1, column 10: unexpected end of JSON input"},
		{`{"count":"3"}`, 400, `field "count": expected an integer, not string`},
		{`{"count":300}`, 400, `field "count": number 300 does not fit`},
		{`{"count":-1}`, 400, `field "count": number -1 does not fit`},
		{`{"count":1.5}`, 400, `field "count": number 1.5 does not fit`},
		{`{"rate":[]}`, 400, `field "rate": expected a number, not array`},
		{`{"paid":1}`, 400, `field "paid": `},
		{`{"item":{"name":{}}}`, 400, `field "item.name": expected a string, not object`},
		{`{"item":[]}`, 400, `field "item": expected an object, not array`},
		{`[]`, 400, `expected an object, not array`},
		{`{"notes":"a"}`, 400, `field "notes": expected an array, not string`},
		{`{"when":"now"}`, 400, `JSON: `},
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			var in order
			if err := req.BindJSON(&in); err != nil {
				if !errors.As(err, new(*conn.BindError)) {
					t.Errorf("%T %v", err, err)
				}
				return resp.Error(400, err)
			}
			return resp.Text(200, fmt.Sprint(in.Count, " ", in.Item.Name, " ", in.Item.Price, " ", in.Notes))
		}})
		c := s.Dial()
		for _, row := range rows {
			for _, raw := range []string{withBody("application/json", row.body),
				inChunks("application/vnd.api+json; charset=utf-8", row.body)} {
				if len(raw) > 60_000 && raw[len(raw)-5] == '0' {
					continue // the same in ten thousand chunks
				}
				a := c.Do("POST", raw)
				if a.StatusCode != row.status || !strings.Contains(a.Text, row.want) ||
					strings.Contains(a.Text, "conn") || strings.Contains(a.Text, "Go ") {
					t.Errorf("%s: %s %q, want %q", clip(row.body), a.Status, a.Text, row.want)
				}
			}
		}
	}, plain, direct, overTLS)
}

func TestBindJSONStrictly(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		var in order
		err := req.BindJSONStrictly(&in)
		var bad *conn.BindError
		if errors.As(err, &bad) {
			return resp.Text(bad.Status, bad.Field+"|"+bad.Error())
		}
		return resp.Text(200, fmt.Sprint(in.Count, err))
	}})
	name := strings.Repeat("x", 1000)
	for body, want := range map[string]string{
		`{"count":3}` + "\n":    "3 <nil>",
		`{"count":3,"other":1}`: `other|JSON: unknown field "other"`,
		`{"count":3} {}`:        "|JSON, line 1, column 13: more behind the value",
		`{"count":3}]`:          "|JSON, line 1, column 12: more behind the value",
		`{"count":`:             "|JSON, line 1, column 10: unexpected end of JSON input",
		`{"` + name + `":1}`:    name[:256] + `...|JSON: unknown field "` + name[:256-21] + "...",
		`{"item":{"name":1}}`:   `item.name|JSON, line 1, column 17: field "item.name": expected a string, not number`,
		`{"count":3,"count":4,"x":}`: "|JSON, line 1, column 26: invalid character '}' looking for " +
			"beginning of value",
	} {
		if a := s.Dial().Do("POST", withBody("application/json", body)); a.Text != want {
			t.Errorf("%s: %s %q, want %q", clip(body), a.Status, a.Text, want)
		}
	}
}

func TestBindJSONOfAnotherType(t *testing.T) {
	s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
		var in any
		return resp.Error(400, req.BindJSON(&in))
	}})
	for kind, want := range map[string]string{
		"text/plain": "expected Content-Type application/json, not \"text/plain\"\n",
		"": "expected Content-Type application/json, not a body without " +
			"Content-Type\n",
		"application/json+html": "expected Content-Type application/json, not " +
			"\"application/json+html\"\n",
	} {
		if a := s.Dial().Do("POST", withBody(kind, "{}")); a.StatusCode != 415 || a.Text != want {
			t.Errorf("%q: %s %q", kind, a.Status, a.Text)
		}
	}
}

// TestBindJSONOfSize: a body of a gigabyte is refused by its length before any of it is read, and
// by what has come if there is no length. A limit of the handler's own counts as well.
func TestBindJSONOfSize(t *testing.T) {
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Limits: conn.Limits{MaxBodySize: -1}, LargestBodySize: -1,
			Handler: func(req *conn.Request, resp *conn.Response) int {
				if req.RawQuery() == "small" {
					req.Body().SetLimit(10)
				}
				var in any
				err := req.BindJSON(&in)
				if !errors.Is(err, conn.ErrBodyTooLarge) {
					t.Errorf("%v", err)
				}
				return resp.Error(400, err)
			}})
		const head = "POST / HTTP/1.1\r\nHost: a\r\nContent-Type: application/json\r\n"
		for why, raw := range map[string]string{
			"length": head + "Content-Length: 1073741824\r\n\r\n[",
			"Expect": head + "Expect: 100-continue\r\nContent-Length: 1073741824\r\n\r\n",
			"chunks": head + "Transfer-Encoding: chunked\r\n\r\n40000000\r\n" +
				strings.Repeat(" ", 11<<20),
			"limit": strings.Replace(head, "/", "/?small", 1) +
				"Content-Length: 11\r\n\r\n          1",
			"limit, chunked": strings.Replace(head, "/", "/?small", 1) +
				"Transfer-Encoding: chunked\r\n\r\nb\r\n          1\r\n0\r\n\r\n",
		} {
			c := s.Dial()
			go io.WriteString(c, raw) // which the server does not read to its end
			if a := c.Answer("POST"); a.StatusCode != 413 || a.Text != "request body too large\n" {
				t.Errorf("%s: %s %q", why, a.Status, a.Text)
			}
			c.Close()
		}
	}, plain, direct)
}

// TestLargeBindJSON: a large value is decoded off the loop, and the client's FIN does not end that.
func TestLargeBindJSON(t *testing.T) {
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			in := order{Count: 9}
			if err := req.BindJSON(&in); err != nil {
				return resp.Error(400, err)
			}
			return resp.Text(200, fmt.Sprint(in.Count, len(in.Notes)))
		}})
		for body, want := range map[string]string{
			`{"notes":["` + strings.Repeat(`a","`, 200_000) + `"]}`: "9 200001",
			`{"notes":["` + strings.Repeat(`a","`, 200_000) + `"]`:  "unexpected end of JSON input",
		} {
			c := s.Dial()
			var sent sync.WaitGroup
			sent.Go(func() {
				_, _ = io.WriteString(c, withBody("application/json", body))
				c.CloseWrite()
			})
			if a := c.Answer("POST"); !strings.Contains(a.Text, want) {
				t.Errorf("%s %q", a.Status, clip(a.Text))
			}
			sent.Wait()
		}
	}, plain, direct)
}

// TestBodiesThatEnd early, in each helper that reads one: by a FIN, by a reset, and by silence.
func TestBodiesThatEnd(t *testing.T) {
	defer conn.SetLingerTime(100*time.Millisecond, 100*time.Millisecond)()
	got := make(chan error, 1)
	var v struct {
		A string `form:"a"`
	}
	run(t, func(t *testing.T, m mode) {
		for name, row := range map[string]struct {
			kind, body string
			read       func(req *conn.Request) error
		}{
			"BindJSON": {"application/json", `{"a":`, func(req *conn.Request) error {
				return req.BindJSON(new(any))
			}},
			"BindForm": {"application/x-www-form-urlencoded", "a=", func(req *conn.Request) error {
				return req.BindForm(&v)
			}},
			"BindForm of parts": {"multipart/form-data; boundary=x", "--x\r\n\r\na",
				func(req *conn.Request) error { return req.BindForm(&v) }},
			"Parts": {"multipart/form-data; boundary=x", "--x\r\n\r\na", func(req *conn.Request) error {
				for part, err := range req.Parts() {
					if err != nil {
						return err
					}
					_, _ = io.Copy(io.Discard, part)
				}
				return nil
			}},
		} {
			s := start(t, m, conn.Config{Limits: conn.Limits{BodyTimeout: time.Hour},
				Handler: func(req *conn.Request, resp *conn.Response) int {
					err := row.read(req)
					got <- err
					return resp.Error(400, err)
				}})
			raw := strings.Replace(withBody(row.kind, row.body+"12345"), "12345", "", 1)
			c := s.Dial()
			send(t, c, raw)
			c.CloseWrite()
			if err := <-got; !errors.Is(err, io.ErrUnexpectedEOF) {
				t.Errorf("%s, FIN: %v", name, err)
			}
			if a := c.Answer("POST"); a.StatusCode != 400 {
				t.Errorf("%s, FIN: %s", name, a.Status)
			}
			c.Close()
			c = s.Dial()
			send(t, c, raw)
			s.Skip(time.Hour)
			if err := <-got; !errors.Is(err, conn.ErrBodyTimeout) {
				t.Errorf("%s, silence: %v", name, err)
			}
			if a := c.Answer("POST"); a.StatusCode != 408 {
				t.Errorf("%s, silence: %s", name, a.Status)
			}
			c.Close()
			if !m.TLS {
				c = s.Dial()
				send(t, c, raw)
				c.Reset()
				if err := <-got; err == nil {
					t.Errorf("%s, reset: no error", name)
				}
			}
			s.Idle()
		}
	}, plain, direct, overTLS)
}

type base struct {
	Page int `form:"page"`
}

type search struct {
	base
	Text   string                `form:"q,required"`
	Tags   []string              `form:"tag"`
	Sizes  []uint8               `form:"size"`
	On     bool                  `form:"on"`
	Limit  *int32                `form:"limit"`
	Ratio  float64               `form:"ratio"`
	Till   time.Time             `form:"till"`
	Wait   time.Duration         `form:"wait"`
	Addr   netip.Addr            `form:"addr"`
	Admin  bool                  // cannot be set by a client
	Hidden string                `form:"-"`
	Upload *multipart.FileHeader `form:"upload"`
}

func (s *search) String() string {
	limit := "none"
	if s.Limit != nil {
		limit = fmt.Sprint(*s.Limit)
	}
	name := ""
	if s.Upload != nil {
		name = s.Upload.Filename
	}
	return fmt.Sprint(s.Page, " ", s.Text, " ", s.Tags, s.Sizes, s.On, " ", limit, " ", s.Ratio, " ",
		s.Till.Year(), " ", s.Wait, " ", s.Addr, " ", s.Admin, s.Hidden, " ", name)
}

func TestBindValues(t *testing.T) {
	rows := []struct {
		query, want string // with !: the error
	}{
		{"q=tea", "0 tea [] [] false none 0 1 0s invalid IP false "},
		{"q=a+b%26&page=-3&tag=x&tag=&size=1&size=255&on=on&limit=7&ratio=1e3&till=2024-05-01T00:00:00Z&wait=2s&addr=::1",
			"-3 a b& [x ] [1 255] true 7 1000 2024 2s ::1 false "},
		{"q=first&q=second&page=&limit=&on=&till=&addr=&other=1&Admin=true&-=x&Hidden=x",
			"0 first [] [] false none 0 1 0s invalid IP false "},
		{"q=x&on=0", "0 x [] [] false none 0 1 0s invalid IP false "},
		{"", `!q field "q": missing`},
		{"q=", `!q field "q": missing`},
		{"q=x&page=ten", `!page field "page": expected an integer, not "ten"`},
		{"q=x&limit=2147483648",
			`!limit field "limit": expected an integer from -2147483648 to 2147483647, not "2147483648"`},
		{"q=x&size=1&size=256", `!size field "size": expected an integer from 0 to 255, not "256"`},
		{"q=x&size=-1", `!size field "size": expected an integer from 0 to 255, not "-1"`},
		{"q=x&size=&size=7&size=", "0 x [] [7] false none 0 1 0s invalid IP false "},
		{"q=x&on=maybe", `!on field "on": expected true or false, not "maybe"`},
		{"q=x&ratio=NaN", `!ratio field "ratio": expected a number, not "NaN"`},
		{"q=x&till=now", `!till field "till": expected a time such as 2006-01-02T15:04:05Z, not "now"`},
		{"q=x&wait=2", `!wait field "wait": expected a duration such as 1m30s, not "2"`},
		{"q=x&addr=a", `!addr field "addr": expected a valid value, not "a"`},
		{"q=%zz", `! form: invalid URL escape "%zz"`},
		{"q=a;b", `! form: invalid semicolon separator in query`},
	}
	multi := func(query string) string {
		var b strings.Builder
		w := multipart.NewWriter(&b)
		_ = w.SetBoundary("xyz")
		for pair := range strings.SplitSeq(query, "&") {
			name, value, _ := strings.Cut(pair, "=")
			_ = w.WriteField(name, strings.NewReplacer("+", " ", "%26", "&").Replace(value))
		}
		_ = w.Close()
		return b.String()
	}
	run(t, func(t *testing.T, m mode) {
		s := start(t, m, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			var in search
			bind := req.BindQuery
			if req.Method() == "POST" {
				bind = req.BindForm
			}
			err := bind(&in)
			var bad *conn.BindError
			if errors.As(err, &bad) {
				return resp.Text(bad.Status, "!"+bad.Field+" "+bad.Error())
			}
			return resp.Text(200, in.String())
		}})
		c := s.Dial()
		for _, row := range rows {
			all := []string{withBody("application/x-www-form-urlencoded", row.query)}
			if !strings.Contains(row.query, "%zz") && !strings.Contains(row.query, ";") {
				all = append(all, inChunks("multipart/form-data; boundary=xyz", multi(row.query)))
				all = append(all, "GET /?"+row.query+" HTTP/1.1\r\nHost: a\r\n\r\n")
			}
			for _, raw := range all {
				method, _, _ := strings.Cut(raw, " ")
				a := c.Do(method, raw)
				if row.want[0] == '!' && a.StatusCode != 400 || a.Text != row.want {
					t.Errorf("%s: %s\n%q, want\n%q", row.query, a.Status, a.Text, row.want)
				}
			}
		}
		for _, row := range []struct{ raw, want string }{
			{"GET /?q=%zz HTTP/1.1\r\nHost: a\r\n\r\n", `! query: invalid URL escape "%zz"`},
			{strings.Replace(withBody("application/x-www-form-urlencoded", "q=body"), "/",
				"/?page=7&q=query", 1),
				"7 body [] [] false none 0 1 0s invalid IP false "},
			{strings.Replace(withBody("multipart/form-data; boundary=xyz", multi("q=body")), "/", "/?page=7",
				1),
				"7 body [] [] false none 0 1 0s invalid IP false "},
			{withBody("multipart/form-data; boundary=xyz",
				"--xyz\r\nContent-Disposition: form-data; name=q\r\n\r\nx\r\n"+
					"--xyz\r\nContent-Disposition: form-data; name=upload; filename=a.png\r\n\r\nx\r\n--xyz--"),
				"0 x [] [] false none 0 1 0s invalid IP false a.png"},
			{withBody("text/plain", "q=x"), "! expected Content-Type application/x-www-form-urlencoded or " +
				"multipart/form-data, not \"text/plain\""},
			{withBody("multipart/form-data", "q=x"), "! form: request body is not a form of that type"},
			{withBody("multipart/form-data; boundary=xyz", "--xyz\r\n\r\nnothing behind it"),
				"! form: multipart: NextPart: EOF"},
		} {
			method, _, _ := strings.Cut(row.raw, " ")
			a := s.Dial().Do(method, row.raw)
			if a.Text != row.want {
				t.Errorf("%q: %s\n%q, want\n%q", clip(row.raw), a.Status, a.Text, row.want)
			}
		}
	}, plain, direct)
}

// TestBindWrongTypes: what the program has got wrong panics, at the first request.
func TestBindWrongTypes(t *testing.T) {
	for why, v := range map[string]any{
		"no pointer": search{},
		"nil":        (*search)(nil),
		"no struct":  new(int),
		"not exported": &struct {
			a int `form:"a"`
		}{},
		"no name": &struct {
			A int `form:",required"`
		}{},
		"option": &struct {
			A int `form:"a,optional"`
		}{},
		"map": &struct {
			A map[string]string `form:"a"`
		}{},
		"func": &struct {
			A []func() `form:"a"`
		}{},
	} {
		s := start(t, direct, conn.Config{Handler: func(req *conn.Request, resp *conn.Response) int {
			_ = req.BindQuery(v)
			return 200
		}})
		s.Panics.Expect()
		if a := s.Request("GET /", nil, ""); a.StatusCode != 500 ||
			!strings.Contains(s.Log.String(), "panic in a handler") {
			t.Errorf("%s: %s", why, a.Status)
		}
	}
}
