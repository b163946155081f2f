package gateway_test

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/scgi"
	"github.com/lwango/lwango/handlers/upstreams"
	"github.com/lwango/lwango/handlers/uwsgi"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/module"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
)

// protocol is a module and a reader of what it sends, which shares nothing with it.
type protocol struct {
	name     string
	register func(*handlers.Registry)
	read     func(r *bufio.Reader) (vars [][2]string, err error)
}

var protocols = []protocol{
	{"uwsgi", uwsgi.Register, readPacket},
	{"scgi", scgi.Register, readNetstring},
}

// each runs f for each protocol.
func each(t *testing.T, f func(t *testing.T, p protocol)) {
	for _, p := range protocols {
		t.Run(p.name, func(t *testing.T) {
			t.Parallel()
			f(t, p)
		})
	}
}

func readPacket(r *bufio.Reader) (vars [][2]string, err error) {
	var head [4]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return nil, err
	}
	vars = append(vars, [2]string{"modifiers", fmt.Sprint(head[0], " ", head[3])})
	all := make([]byte, binary.LittleEndian.Uint16(head[1:]))
	if _, err := io.ReadFull(r, all); err != nil {
		return nil, err
	}
	text := func() (s string) {
		if len(all) < 2 || len(all)-2 < int(all[0])+int(all[1])<<8 {
			err = errors.New("a variable ends behind the packet")
			all = nil
			return ""
		}
		n := 2 + int(all[0]) + int(all[1])<<8
		s, all = string(all[2:n]), all[n:]
		return s
	}
	for len(all) > 0 {
		name := text()
		vars = append(vars, [2]string{name, text()})
	}
	return vars, err
}

func readNetstring(r *bufio.Reader) (vars [][2]string, err error) {
	digits, err := r.ReadString(':')
	if err != nil {
		return nil, err
	}
	n, err := strconv.Atoi(strings.TrimSuffix(digits, ":"))
	if err != nil || digits[0] == '0' {
		return nil, fmt.Errorf("length %q", digits)
	}
	all := make([]byte, n+1)
	if _, err := io.ReadFull(r, all); err != nil {
		return nil, err
	}
	text, ok := strings.CutSuffix(string(all), "\x00,")
	parts := strings.Split(text, "\x00")
	if !ok || len(parts)%2 != 0 {
		return nil, fmt.Errorf("not a netstring of pairs: %q", all)
	}
	for i := 0; i < len(parts); i += 2 {
		vars = append(vars, [2]string{parts[i], parts[i+1]})
	}
	if vars[0][0] != "CONTENT_LENGTH" || vars[1] != [2]string{"SCGI", "1"} {
		return nil, fmt.Errorf("begins with %q", vars[:2])
	}
	return vars, nil
}

// request is what an application has been asked.
type request struct {
	net.Conn
	r    *bufio.Reader
	t    *testing.T
	vars [][2]string
}

// get returns a variable, "-" if there is none. Each may be there once.
func (r *request) get(name string) string {
	found := "-"
	for _, v := range r.vars {
		if v[0] == name {
			if found != "-" {
				r.t.Errorf("%s is there twice", name)
			}
			found = v[1]
		}
	}
	return found
}

// body reads the body.
func (r *request) body() string {
	n, _ := strconv.Atoi(r.get("CONTENT_LENGTH"))
	b := make([]byte, n)
	if _, err := io.ReadFull(r.r, b); err != nil {
		r.t.Errorf("body: %v", err)
	}
	return string(b)
}

// reply sends text.
func (r *request) reply(text string) { _, _ = io.WriteString(r.Conn, text) }

// application listens, and runs script for each request. The connection is closed when that
// returns.
func application(t *testing.T, p protocol, network string,
	script func(r *request)) (address string) {
	t.Helper()
	at := "127.0.0.1:0"
	if network == "unix" {
		dir, err := os.MkdirTemp("", "app") // a socket's path has to be short, t.TempDir is not
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		at = dir + "/s"
	}
	ln := must.Get(net.Listen(network, at))(t)
	var running sync.WaitGroup
	running.Go(func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				return
			}
			running.Go(func() {
				defer c.Close()
				r := &request{Conn: c, r: bufio.NewReader(c), t: t}
				if r.vars, err = p.read(r.r); err == nil {
					script(r)
				} else if err != io.EOF { // not of a check that connects alone
					t.Errorf("%s: %v", p.name, err)
				}
			})
		}
	})
	t.Cleanup(func() {
		ln.Close()
		running.Wait()
	})
	if network == "unix" {
		return "unix:" + at
	}
	return ln.Addr().String()
}

// route is a server with the module.
type route struct {
	*server.Server
	log *logtext.Buffer
}

func build(p protocol, env handlers.Env, addresses []string,
	change func(*upstreams.Gateway)) (handlers.Route, error) {
	var r handlers.Registry
	p.register(&r)
	m, _ := r.Module(p.name)
	set := m.NewSettings()
	var common *upstreams.Gateway
	switch s := set.(type) {
	case *uwsgi.Settings:
		s.Address, s.BufferSize, common = addresses, 65535, &s.Gateway
	case *scgi.Settings:
		s.Address, common = addresses, &s.Gateway
	}
	common.ReadTimeout, common.SendTimeout = 10*wait.Patience, 10*wait.Patience
	if change != nil {
		change(common)
	}
	h, err := m.Build(set, env)
	return handlers.Route{Prefix: env.Prefix, Handler: h}, err
}

func serve(t *testing.T, p protocol, prefix string, addresses []string,
	change func(*upstreams.Gateway)) *route {
	t.Helper()
	s := &route{log: new(logtext.Buffer)}
	env := handlers.Env{Dir: t.TempDir(), Prefix: prefix,
		Logger: slog.New(slog.NewTextHandler(s.log, nil))}
	r, err := build(p, env, addresses, change)
	if err != nil {
		t.Fatal(err)
	}
	s.Server = module.Start(t, modes.Direct, prefix, r.Handler)
	return s
}

// got is an answer, perhaps one that was cut.
type got struct {
	status  int
	header  http.Header
	body    string
	err     error
	interim []int
}

// ask sends one request, and reads the answer.
func (s *route) ask(line string, fields []string, body string) got {
	s.T.Helper()
	c := s.Dial()
	defer c.Close()
	raw := line + " HTTP/1.1\r\nHost: test.example\r\n" + strings.Join(append(fields, ""), "\r\n")
	if body != "" && !strings.Contains(raw, "chunked") {
		raw += fmt.Sprintf("Content-Length: %d\r\n", len(body))
	}
	go io.WriteString(c, raw+"\r\n"+body)
	method, _, _ := strings.Cut(line, " ")
	return readAnswer(c.R, method)
}

func readAnswer(r *bufio.Reader, method string) (g got) {
	for {
		resp, err := http.ReadResponse(r, &http.Request{Method: method})
		if err != nil {
			g.err = err
			return g
		}
		if resp.StatusCode < 200 {
			g.interim = append(g.interim, resp.StatusCode)
			continue
		}
		b, err := io.ReadAll(resp.Body)
		g.status, g.header, g.body, g.err = resp.StatusCode, resp.Header, string(b), err
		return g
	}
}
