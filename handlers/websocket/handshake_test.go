package websocket_test

import (
	"bufio"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/websocket"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
)

// TestHandshake: what is answered to requests, each a good one with fields changed. A field without
// a value is left out.
func TestHandshake(t *testing.T) { modes.Run(t, handshakes, plain, serving(direct)) }

func handshakes(t *testing.T, m mode) {
	u := &websocket.Upgrader{Compression: true, Subprotocols: []string{"v2.chat", "v1.chat"},
		Origins: []string{"https://friend.example", "https://port.example:443",
			"wss://socket.example", "capacitor://LOCALHOST"}}
	s := start(t, m, echo(u))
	const deflated = "permessage-deflate; server_no_context_takeover; client_no_context_takeover"
	for _, row := range []struct {
		why    string
		line   string // "": GET / HTTP/1.1
		change string
		status int
		field  string // of the answer
		value  string
	}{
		{"as it is", "", "", 101, "Sec-WebSocket-Accept", "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="},
		{"other cases of letters", "", "Upgrade: WebSocket\nConnection: keep-alive, upgrade", 101,
			"Upgrade", "websocket"},
		{"several upgrades", "", "Upgrade: h2c, websocket", 101, "Connection", "Upgrade"},
		{"no upgrade", "", "Upgrade:", 426, "Upgrade", "websocket"},
		{"another upgrade", "", "Upgrade: h2c", 426, "Connection", "Upgrade"},
		{"no connection", "", "Connection:", 400, "", ""},
		{"connection without the token", "", "Connection: keep-alive", 400, "", ""},
		{"HTTP/1.0", "GET / HTTP/1.0", "", 426, "Upgrade", "websocket"},
		{"POST", "POST / HTTP/1.1", "Content-Length: 0", 405, "Allow", "GET"},
		{"HEAD", "HEAD / HTTP/1.1", "", 405, "Allow", "GET"},
		{"a body", "", "Content-Length: 3", 400, "", ""},
		{"a chunked body", "", "Transfer-Encoding: chunked", 400, "", ""},
		{"no version", "", "Sec-WebSocket-Version:", 426, "Sec-WebSocket-Version", "13"},
		{"an old version", "", "Sec-WebSocket-Version: 8", 426, "Sec-WebSocket-Version", "13"},
		{"no key", "", "Sec-WebSocket-Key:", 400, "", ""},
		{"a short key", "", "Sec-WebSocket-Key: dGhlIHNhbXBsZQ==", 400, "", ""},
		{"a long key", "", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSBhbmQgbW9yZQ==", 400, "", ""},
		{"17 bytes of key", "", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZSE=", 400, "", ""},
		{"a key that is no base64", "", "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25j*Q==", 400, "", ""},
		{"two keys", "",
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", 400,
			"", ""},

		{"same host", "", "Origin: http://example.org", 101, "", ""},
		{"same host, other letters", "", "Origin: https://EXAMPLE.org", 101, "", ""},
		{"same host, its port", "", "Host: example.org:443\nOrigin: https://example.org", 101, "",
			""},
		{"another port", "", "Origin: http://example.org:81", 403, "", ""},
		{"another site", "", "Origin: https://evil.example", 403, "", ""},
		{"a site that ends alike", "", "Origin: https://evil-example.org", 403, "", ""},
		{"another site within", "", "Origin: https://evil.example/example.org", 403, "", ""},
		{"user information", "", "Origin: https://example.org@evil.example", 403, "", ""},
		{"user information, same host", "", "Origin: https://me@example.org", 403, "", ""},
		{"a path", "", "Origin: https://example.org/", 403, "", ""},
		{"a scheme of no page", "", "Origin: ftp://example.org", 403, "", ""},
		{"no scheme", "", "Origin: //example.org", 403, "", ""},
		{"null", "", "Origin: null", 403, "", ""},
		{"empty", "", "Host:  \nOrigin: ", 400, "", ""},
		{"two origins", "", "Origin: http://example.org\nOrigin: http://example.org", 403, "", ""},
		{"a site of the list", "", "Origin: https://friend.example", 101, "", ""},
		{"with another scheme", "", "Origin: http://friend.example", 403, "", ""},

		// Starscream and others make an Origin of the address that they connect to.
		{"ws for http", "", "Origin: ws://example.org", 101, "", ""},
		{"wss for https", "", "Origin: wss://example.org", 101, "", ""},
		{"in other letters", "", "Origin: WSS://EXAMPLE.org", 101, "", ""},
		{"with the port of https", "", "Origin: wss://example.org:443", 101, "", ""},
		{"with the port of http", "", "Origin: http://example.org:80", 101, "", ""},
		{"both with the port", "", "Host: example.org:80\nOrigin: ws://example.org:80", 101, "", ""},
		{"the port of the other scheme", "", "Origin: wss://example.org:80", 403, "", ""},
		{"wss of another host", "", "Origin: wss://evil.example", 403, "", ""},
		{"of the list, wss with its port", "", "Origin: wss://Friend.example:443", 101, "", ""},
		{"of the list, ws", "", "Origin: ws://friend.example", 403, "", ""},
		{"of the list, with its port there", "", "Origin: https://port.example", 101, "", ""},
		{"of the list, wss there", "", "Origin: https://socket.example", 101, "", ""},
		{"of the list, of an app", "", "Origin: capacitor://localhost", 101, "", ""},

		{"a subprotocol", "", "Sec-WebSocket-Protocol: v1.chat", 101, "Sec-WebSocket-Protocol",
			"v1.chat"},
		{"the server's choice", "",
			"Sec-WebSocket-Protocol: x, v1.chat\nSec-WebSocket-Protocol: v2.chat", 101,
			"Sec-WebSocket-Protocol", "v2.chat"},
		{"none in common", "", "Sec-WebSocket-Protocol: V1.chat, x", 101, "Sec-WebSocket-Protocol",
			""},
		{"not a token", "", "Sec-WebSocket-Protocol: a b", 400, "", ""},
		{"empty elements", "", "Sec-WebSocket-Protocol: ,a,, \t,v1.chat ,", 101,
			"Sec-WebSocket-Protocol", "v1.chat"},
		{"nothing but empty elements", "", "Sec-WebSocket-Protocol: , ,", 101,
			"Sec-WebSocket-Protocol", ""},
		{"not a token among empty elements", "", "Sec-WebSocket-Protocol: ,a b,", 400, "", ""},
		{"empty elements of other lists", "", "Upgrade: , websocket,,\nConnection: ,, upgrade ,",
			101, "Upgrade", "websocket"},

		{"deflate", "", "Sec-WebSocket-Extensions: permessage-deflate", 101,
			"Sec-WebSocket-Extensions", deflated},
		{"as Chrome offers it", "",
			"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits", 101,
			"Sec-WebSocket-Extensions", deflated},
		{"all that can be had", "",
			`Sec-WebSocket-Extensions: permessage-deflate;client_no_context_takeover; server_no_context_takeover ;client_max_window_bits = "10"`, 101, "Sec-WebSocket-Extensions", deflated},
		{"a smaller window is declined", "",
			"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=10", 101,
			"Sec-WebSocket-Extensions", ""},
		{"the second offer", "",
			"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=10, permessage-deflate",
			101, "Sec-WebSocket-Extensions", deflated},
		{"the second field", "",
			"Sec-WebSocket-Extensions: x-other; a=1\nSec-WebSocket-Extensions: permessage-deflate",
			101, "Sec-WebSocket-Extensions", deflated},
		{"the largest window", "",
			"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=15; " +
				"client_max_window_bits", 101, "Sec-WebSocket-Extensions",
			"permessage-deflate; server_max_window_bits=15; server_no_context_takeover; " +
				"client_no_context_takeover"},
		{"the largest window, of the second offer", "",
			`Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=14, permessage-deflate; server_max_window_bits="15"`, 101, "Sec-WebSocket-Extensions",
			"permessage-deflate; server_max_window_bits=15; server_no_context_takeover; " +
				"client_no_context_takeover"},
		{"the largest window, of an offer that is not taken", "",
			"Sec-WebSocket-Extensions: permessage-deflate, permessage-deflate; server_max_window_bits=15",
			101, "Sec-WebSocket-Extensions", deflated},
		{"a window of 015", "",
			"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=015", 101,
			"Sec-WebSocket-Extensions", ""},
		{"a window of 16", "",
			"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=16", 101,
			"Sec-WebSocket-Extensions", ""},
		{"a server's window without a value", "",
			"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits", 101,
			"Sec-WebSocket-Extensions", ""},
		{"a server's window twice", "",
			"Sec-WebSocket-Extensions: permessage-deflate; server_max_window_bits=15; " +
				"server_max_window_bits=15", 101, "Sec-WebSocket-Extensions", ""},
		{"an unknown parameter", "", "Sec-WebSocket-Extensions: permessage-deflate; x", 101,
			"Sec-WebSocket-Extensions", ""},
		{"a parameter twice", "",
			"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits; client_max_window_bits",
			101, "Sec-WebSocket-Extensions", ""},
		{"a value too many", "",
			"Sec-WebSocket-Extensions: permessage-deflate; client_no_context_takeover=1", 101,
			"Sec-WebSocket-Extensions", ""},
		{"a window of 7", "",
			"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=7", 101,
			"Sec-WebSocket-Extensions", ""},
		{"a window of 08", "",
			"Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=08", 101,
			"Sec-WebSocket-Extensions", ""},
		{"no name", "", "Sec-WebSocket-Extensions: ; x", 400, "", ""},
		{"no parameter", "", "Sec-WebSocket-Extensions: permessage-deflate;", 400, "", ""},
		{"no value", "", "Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits=",
			400, "", ""},
		{"an open quote", "",
			`Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits="8`, 400, "", ""},
		{"a quoted list", "",
			`Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits="8, 9"`, 400, "",
			""},
		{"two names", "", "Sec-WebSocket-Extensions: permessage deflate", 400, "", ""},
		{"no name among empty elements", "", "Sec-WebSocket-Extensions: , ; x,", 400, "", ""},
		{"empty elements around an offer", "",
			"Sec-WebSocket-Extensions: ,, x-other,\t, permessage-deflate , ,", 101,
			"Sec-WebSocket-Extensions", deflated},
		{"no offer at all", "", "Sec-WebSocket-Extensions: ,\nSec-WebSocket-Extensions: ", 101,
			"Sec-WebSocket-Extensions", ""},
	} {
		fields := []string{"Host: example.org", "Upgrade: websocket", "Connection: Upgrade",
			"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==", "Sec-WebSocket-Version: 13"}
		if row.change != "" {
			changes := strings.Split(row.change, "\n")
			for i, f := range fields {
				name, _, _ := strings.Cut(f, ":")
				if strings.HasPrefix(row.change, name+":") ||
					strings.Contains(row.change, "\n"+name+":") {
					fields[i] = ""
				}
			}
			for _, c := range changes {
				if !strings.HasSuffix(c, ":") {
					fields = append(fields, c)
				}
			}
		}
		raw := row.line
		if raw == "" {
			raw = "GET / HTTP/1.1"
		}
		raw += "\r\n"
		for _, f := range fields {
			if f != "" {
				raw += f + "\r\n"
			}
		}
		method, _, _ := strings.Cut(raw, " ")
		c := s.Dial()
		_, _ = io.WriteString(c, raw+"\r\n")
		resp, err := http.ReadResponse(bufio.NewReader(c), &http.Request{Method: method})
		c.Close()
		if err != nil {
			t.Errorf("%s: %v", row.why, err)
			continue
		}
		if resp.StatusCode != row.status ||
			row.field != "" && resp.Header.Get(row.field) != row.value {
			t.Errorf("%s: %s, %q; want %d, %s: %q", row.why, resp.Status, resp.Header, row.status,
				row.field, row.value)
		}
	}
}

// TestHandshakeFields: what the handler has set goes out with the answer, but for what is not its
// business.
func TestHandshakeFields(t *testing.T) {
	both(t, func(t *testing.T, m mode) {
		var u websocket.Upgrader
		h := echo(&u)
		s := start(t, m, func(req *conn.Request, resp *conn.Response) int {
			resp.Header().Add("Set-Cookie", "a=1")
			resp.Header().Add("set-cookie", "b=2")
			resp.Header().Set("Sec-WebSocket-Extensions", "x")
			if req.Path() == "/bad" {
				resp.Header().Set("X-Bad", "a\r\nb")
			}
			return h(req, resp)
		})
		for path, status := range map[string]int{"/": 101, "/bad": 500} {
			c := s.Dial()
			_, _ = io.WriteString(c, strings.Replace(handshake, "/", path, 1)+"\r\n")
			resp := must.Get(http.ReadResponse(bufio.NewReader(c), nil))(t)
			if resp.StatusCode != status {
				t.Errorf("%s: %s", path, resp.Status)
			}
			if cookies := resp.Header.Values("Set-Cookie"); status == 101 &&
				(strings.Join(cookies, ",") != "a=1,b=2" ||
					resp.Header.Get("Sec-WebSocket-Extensions") != "") {
				t.Errorf("fields %q", resp.Header)
			}
			c.Close()
		}
	})
}

// TestCheckOrigin decides alone, on requests of browsers.
func TestCheckOrigin(t *testing.T) { modes.Run(t, checkOrigin, plain, serving(direct)) }

func checkOrigin(t *testing.T, m mode) {
	s := start(t, m, echo(&websocket.Upgrader{CheckOrigin: func(req *conn.Request,
		origin string) bool {
		return origin == "https://"+strings.ToUpper(req.Host())
	}}))
	upgrade(s)
	upgrade(s, "Origin: https://EXAMPLE.ORG\r\n")
	c := s.Dial()
	_, _ = io.WriteString(c, handshake+"Origin: https://example.org\r\n\r\n")
	if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil ||
		resp.StatusCode != 403 {
		t.Errorf("%v, %v", resp, err)
	}
}

// TestOriginOverTLS: a page of the same host that came without TLS may be an attacker's.
func TestOriginOverTLS(t *testing.T) { modes.Run(t, originOverTLS, overTLS, serving(overTLS)) }

func originOverTLS(t *testing.T, m mode) {
	s := start(t, m, echo(&websocket.Upgrader{}))
	for origin, status := range map[string]int{"https://example.org": 101, "http://example.org": 403,
		"wss://example.org": 101, "wss://example.org:443": 101, "ws://example.org": 403} {
		c := s.Dial()
		_, _ = io.WriteString(c, handshake+"Origin: "+origin+"\r\n\r\n")
		if resp, err := http.ReadResponse(bufio.NewReader(c), nil); err != nil ||
			resp.StatusCode != status {
			t.Errorf("%s: %v, %v", origin, resp, err)
		}
		c.Close()
	}
}
