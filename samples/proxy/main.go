// Proxy passes each request on to another server, and the answer back, both piece by piece.
package main

import (
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/client"
)

func main() {
	to := flag.String("to", "", "`URL` of the server, such as http://127.0.0.1:9000")
	limit := flag.Duration("limit", 10*time.Minute, "`time` that a request may take, with its answer")
	lwango.ParseFlags()
	if u, err := url.Parse(*to); err != nil || u.Scheme != "http" && u.Scheme != "https" ||
		u.Host == "" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		fmt.Fprintln(os.Stderr, "proxy: -to wants a URL such as http://127.0.0.1:9000")
		os.Exit(2)
	}
	lwango.Handle("/", pass(strings.TrimRight(*to, "/"), *limit))
	lwango.Main()
}

func pass(to string, limit time.Duration) lwango.Handler {
	return func(req *lwango.Request, resp *lwango.Response) int {
		path := req.Layer().RawPathView()
		ask := client.Request{Method: req.Method(), URL: to + string(path), MaxBody: 1 << 50}
		if q := req.RawQuery(); q != "" {
			ask.URL += "?" + q
		}
		carry(&ask.Header, req.Header())
		if from := req.RemoteAddr().Addr(); from.IsValid() { // not over a UNIX socket
			ask.Header.Add("X-Forwarded-For", from.String())
		}
		ask.Header.Set("X-Forwarded-Host", req.Host())
		if n := req.ContentLength(); n != 0 { // -1: it comes in chunks, and goes on in chunks
			ask.From, ask.Length = req.Body(), n
		}
		answer, err := client.Do(req.Thread, limit, &ask)
		if errors.Is(err, lwango.ErrDeadlineExceeded) {
			return resp.Error(504, err)
		}
		if err != nil {
			return resp.Error(502, err) // or 400, 408, 413 if it was the client's body
		}
		carry(resp.Header(), &answer.Header)
		resp.Layer().Relay(answer.Status, "")
		length, err := strconv.ParseInt(answer.Header.Get("Content-Length"), 10, 64)
		if err != nil {
			length = -1 // to its end
		}
		resp.SetBodyReader(answer.Body, length)
		return answer.Status
	}
}

// carry copies the fields that are for the other end, and not for the connection (RFC 9110 section
// 7.6.1), nor about how the body is framed.
func carry(to, from *lwango.Header) {
	own := "," + strings.ReplaceAll(strings.Join(from.Values("Connection"), ","), " ", "") + ","
	for name, value := range from.All() {
		switch lower := strings.ToLower(name); lower {
		case "connection", "keep-alive", "proxy-connection", "proxy-authorization", "proxy-authenticate",
			"te", "trailer", "transfer-encoding", "upgrade", "content-length", "host", "expect":
		default:
			if !strings.Contains(strings.ToLower(own), ","+lower+",") {
				to.Add(name, value)
			}
		}
	}
}
