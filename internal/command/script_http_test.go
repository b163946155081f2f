package command_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// split takes ADDRESS/PATH apart; the address of a UNIX socket is unix:/path: with a colon at its
// end.
func split(target string) (network, address, path string) {
	if rest, ok := strings.CutPrefix(target, "unix:"); ok {
		address, path, _ = strings.Cut(rest, ":")
		return "unix", address, path
	}
	address, path, _ = strings.Cut(target, "/")
	return "tcp", address, "/" + path
}

func request(ts *testscript.TestScript, neg bool, args []string) {
	method, body, host, secure := "GET", "", "", false
	header := http.Header{}
	for len(args) > 1 {
		switch args[0] {
		case "-k":
			secure = true
			args = args[1:]
			continue
		case "-X":
			method = args[1]
		case "-d":
			body = args[1]
		case "-host":
			host = args[1]
		case "-H":
			name, value, _ := strings.Cut(args[1], ":")
			header.Add(name, strings.TrimSpace(value))
		default:
			ts.Fatalf("http: unknown flag %s", args[0])
		}
		args = args[2:]
	}
	network, address, path := split(args[0])
	client := http.Client{
		Timeout:       patience,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		Transport: &http.Transport{
			DisableKeepAlives:  true,
			DisableCompression: true,
			TLSClientConfig:    &tls.Config{InsecureSkipVerify: true, ServerName: host},
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return new(net.Dialer).DialContext(ctx, network, address)
			},
		},
	}
	scheme := "http"
	if secure {
		scheme = "https"
	}
	urlHost := address
	if network == "unix" {
		urlHost = "localhost"
	}
	req, err := http.NewRequest(method, scheme+"://"+urlHost+path, strings.NewReader(body))
	ts.Check(err)
	req.Host, req.Header = host, header
	resp, err := client.Do(req)
	if neg {
		if err == nil {
			ts.Fatalf("http: an answer, %s", resp.Status)
		}
		return
	}
	ts.Check(err)
	printResponse(ts, resp)
}

func printResponse(ts *testscript.TestScript, resp *http.Response) {
	defer resp.Body.Close()
	out := ts.Stdout()
	fmt.Fprintf(out, "%s %s\n", resp.Proto, resp.Status)
	if resp.TLS != nil && len(resp.TLS.PeerCertificates) > 0 {
		fmt.Fprintf(out, "(certificate of %s)\n", resp.TLS.PeerCertificates[0].Subject.CommonName)
	}
	if resp.Close {
		fmt.Fprintln(out, "(close)") // net/http keeps the field to itself
	}
	names := []string{}
	for name := range resp.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		for _, v := range resp.Header[name] {
			fmt.Fprintf(out, "%s: %s\n", name, v)
		}
	}
	fmt.Fprintln(out)
	_, err := io.Copy(out, resp.Body)
	ts.Check(err)
}

func hold(ts *testscript.TestScript, neg bool, args []string) {
	network, address, path := split(args[0])
	c, err := net.Dial(network, address)
	ts.Check(err)
	running(ts).held = c
	_, err = fmt.Fprintf(c,
		"POST %s HTTP/1.1\r\nHost: h\r\nContent-Length: 4\r\nExpect: 100-continue\r\n\r\n", path)
	ts.Check(err)
	// The interim response tells that a handler has the request and waits for its body.
	_ = c.SetReadDeadline(time.Now().Add(patience))
	line, err := readLine(c)
	if err != nil || !strings.Contains(line, "100") {
		ts.Fatalf("hold: %q, %v", line, err)
	}
	if line, err = readLine(c); err != nil || line != "\r\n" {
		ts.Fatalf("hold: %q, %v", line, err)
	}
}

// readLine takes no byte beyond the line.
func readLine(c net.Conn) (string, error) {
	var line []byte
	for b := []byte{0}; b[0] != '\n'; line = append(line, b[0]) {
		if _, err := io.ReadFull(c, b); err != nil {
			return string(line), err
		}
	}
	return string(line), nil
}

func release(ts *testscript.TestScript, neg bool, args []string) {
	c := running(ts).held
	_, err := io.WriteString(c, "done")
	ts.Check(err)
	resp, err := http.ReadResponse(bufio.NewReader(c), nil)
	if neg {
		if err == nil {
			ts.Fatalf("release: an answer, %s", resp.Status)
		}
		return
	}
	ts.Check(err)
	printResponse(ts, resp)
}
