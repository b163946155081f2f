package fcgitest

import (
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// A Request is a request as it was received.
type Request struct {
	Conn    int  // number of the connection, from 1
	Keep    bool // KEEP_CONN
	Params  [][2]string
	Env     map[string]string
	Body    []byte
	Records []Record // all of them, the empty ones too

	// First is how many bytes the first read returned, and HeadLen is the length of BEGIN_REQUEST
	// and PARAMS. If a server sends both in one write, and a socket takes that at once, First >=
	// HeadLen.
	First, HeadLen int
	// Whole is set once the empty STDIN was read.
	Whole bool
}

// A Record is the header of a record.
type Record struct {
	Type            byte
	Length, Padding int
}

// Get returns a parameter.
func (r *Request) Get(name string) string { return r.Env[name] }

// errGone is the end of the input, at whatever place: a web server can abort only by closing.
var errGone = errors.New("the peer has closed")

// A decoder reads requests. It demands more than the protocol: also what PHP-FPM demands, which
// otherwise resets the connection or hangs, and what our own manual promises.
type decoder struct {
	from  io.Reader
	buf   []byte // bytes that were read and not taken yet
	taken int    // bytes of the current request
	first int    // bytes of the first read of the current request

	req  *Request
	body int // bytes of STDIN so far
}

func (d *decoder) fill() error {
	p := make([]byte, 64<<10)
	n, err := d.from.Read(p)
	if n > 0 {
		if d.first == 0 && len(d.buf) == 0 {
			d.first = n
		}
		d.buf = append(d.buf, p[:n]...)
		return nil
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return fmt.Errorf("%w: %v", errGone, err)
}

func (d *decoder) take(n int) ([]byte, error) {
	for len(d.buf) < n {
		if err := d.fill(); err != nil {
			return nil, err
		}
	}
	p := d.buf[:n:n]
	d.buf = d.buf[n:]
	d.taken += n
	return p, nil
}

// record reads a record, which must have one of the types.
func (d *decoder) record(types string) (byte, []byte, error) {
	h, err := d.take(8)
	if err != nil {
		return 0, nil, err
	}
	typ, id, n, pad := h[1], int(h[2])<<8|int(h[3]), int(h[4])<<8|int(h[5]), int(h[6])
	switch {
	case h[0] != 1:
		return 0, nil, fmt.Errorf("record of version %d", h[0])
	case h[7] != 0:
		return 0, nil, fmt.Errorf("the reserved byte is %d", h[7])
	case strings.IndexByte(types, typ) < 0:
		return 0, nil, fmt.Errorf("record of type %d, want one of %q", typ, types)
	case id != 1:
		return 0, nil, fmt.Errorf("record with id %d", id)
	case n+pad > 65535:
		return 0, nil, fmt.Errorf("record of %d bytes and %d of padding", n, pad)
	}
	p, err := d.take(n + pad)
	if err != nil {
		return 0, nil, err
	}
	d.req.Records = append(d.req.Records, Record{typ, n, pad})
	return typ, p[:n], nil
}

// head reads BEGIN_REQUEST and PARAMS.
func (d *decoder) head() (*Request, error) {
	d.req, d.body, d.taken, d.first = &Request{Env: map[string]string{}}, 0, 0, len(d.buf)
	_, p, err := d.record("\x01")
	if err != nil {
		return nil, err
	}
	if len(p) != 8 || p[0] != 0 || p[1] != 1 || p[2]&^1 != 0 ||
		string(p[3:]) != "\x00\x00\x00\x00\x00" {
		return nil, fmt.Errorf("BEGIN_REQUEST is %q", p)
	}
	d.req.Keep = p[2] == 1
	for {
		_, p, err := d.record("\x04")
		if err != nil {
			return nil, err
		}
		if len(p) == 0 {
			break
		}
		if err := d.pairs(p); err != nil {
			return nil, err
		}
	}
	d.req.First, d.req.HeadLen = d.first, d.taken
	return d.req, d.checkParams()
}

// pairs reads the pairs of one record.
func (d *decoder) pairs(p []byte) error {
	length := func() (n int, ok bool) {
		switch {
		case len(p) >= 1 && p[0]>>7 == 0:
			n, p = int(p[0]), p[1:]
		case len(p) >= 4:
			n, p = int(p[0]&0x7f)<<24|int(p[1])<<16|int(p[2])<<8|int(p[3]), p[4:]
			if n < 128 {
				return n, false
			}
		default:
			return 0, false
		}
		return n, true
	}
	for len(p) > 0 {
		n, ok := length()
		v, ok2 := length()
		if !ok || !ok2 || n > len(p) || v > len(p)-n {
			return fmt.Errorf("a pair of %d and %d bytes is not whole in its record, "+
				"or a length has the wrong form", n, v)
		}
		name, value := string(p[:n]), string(p[n:n+v])
		p = p[n+v:]
		switch _, there := d.req.Env[name]; {
		case name == "" || strings.Contains(name+value, "\x00"):
			return fmt.Errorf("the pair %.50q=%.50q is empty or has a NUL", name, value)
		case there:
			return fmt.Errorf("%s is there twice", name)
		}
		d.req.Params = append(d.req.Params, [2]string{name, value})
		d.req.Env[name] = value
	}
	return nil
}

func (d *decoder) checkParams() error {
	env := d.req.Env
	for _, name := range []string{"GATEWAY_INTERFACE", "SERVER_PROTOCOL", "REQUEST_METHOD",
		"QUERY_STRING", "REQUEST_URI",
		"SCRIPT_NAME", "SCRIPT_FILENAME", "SERVER_NAME", "SERVER_PORT", "REMOTE_ADDR",
		"CONTENT_LENGTH"} {
		if _, ok := env[name]; !ok {
			return fmt.Errorf("%s is missing", name)
		}
	}
	for name := range env {
		if http, ok := strings.CutPrefix(name, "HTTP_"); ok {
			switch http {
			case "PROXY", "CONNECTION", "KEEP_ALIVE", "TE", "TRAILER", "TRANSFER_ENCODING",
				"UPGRADE", "CONTENT_LENGTH",
				"CONTENT_TYPE":
				return fmt.Errorf("%s is there", name)
			}
		}
	}
	if n, err := strconv.Atoi(env["CONTENT_LENGTH"]); err != nil || n < 0 {
		return fmt.Errorf("CONTENT_LENGTH is %q", env["CONTENT_LENGTH"])
	}
	return nil
}

// stdin reads the next record of the body, and nothing at its end.
func (d *decoder) stdin() ([]byte, error) {
	_, p, err := d.record("\x05")
	if err != nil {
		return nil, err
	}
	d.body += len(p)
	switch want := d.req.Env["CONTENT_LENGTH"]; {
	case len(p) > 0:
		if n, _ := strconv.Atoi(want); d.body > n {
			return nil, fmt.Errorf("%d bytes of STDIN, CONTENT_LENGTH is %s", d.body, want)
		}
	case strconv.Itoa(d.body) != want:
		return nil, fmt.Errorf("STDIN ended at %d bytes, CONTENT_LENGTH is %s", d.body, want)
	default:
		d.req.Whole = true
	}
	return p, nil
}
