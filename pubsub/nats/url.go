package nats

import (
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	natsgo "github.com/nats-io/nats.go"

	"github.com/lwango/lwango/pubsub/internal/engine"
)

// target is what a URL says.
type target struct {
	options  natsgo.Options
	stream   string
	replicas int
}

const want = "expected something like nats://user:password@host:4222"

// A stream's name is a part of subjects.
var streamName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// Check returns what is wrong with a URL, as the package's comment describes it. It reads the files
// that the URL names. The error does not quote the URL.
func Check(rawURL string) error {
	_, err := parse(rawURL)
	return err
}

func parse(rawURL string) (*target, error) {
	u, err := url.Parse(rawURL)
	if err != nil {
		var e *url.Error // it quotes the URL, including the password
		if errors.As(err, &e) {
			err = e.Err
		}
		if strings.Contains(err.Error(), `"`) { // the error within may quote a part of it, too
			err = errors.New("not a URL")
		}
		return nil, fmt.Errorf("%w; %s", err, want)
	}
	switch {
	case u.Scheme != "nats" && u.Scheme != "tls":
		return nil, errors.New("no such scheme; " + want)
	case u.Hostname() == "":
		return nil, errors.New("no host; " + want)
	case u.Fragment != "" || u.Path != "" && u.Path != "/" || strings.Contains(u.RawQuery, "@"):
		return nil, errors.New("a /, ? or # in a password is written %2F, %3F or %23; " + want)
	}
	q := u.Query()
	take := func(key string) string {
		value := q.Get(key)
		q.Del(key)
		return value
	}
	at := &target{stream: "lwango", replicas: 1, options: natsgo.GetDefaultOptions()}
	at.options.Servers = []string{server(u, u.Host)}
	for _, addr := range q["addr"] {
		host, port, err := net.SplitHostPort(addr)
		if err != nil || host == "" {
			return nil, errAddr
		}
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, errAddr
		}
		at.options.Servers = append(at.options.Servers, server(u, addr))
	}
	q.Del("addr")
	for _, text := range at.options.Servers { // the client's error would quote it
		if _, err := url.Parse(text); err != nil {
			return nil, errors.New("not a host; " + want)
		}
	}
	if name := take("stream"); name != "" {
		if at.stream = name; !streamName.MatchString(name) {
			return nil, errors.New("stream is a name of letters, digits, - and _")
		}
	}
	if text := take("replicas"); text != "" {
		if at.replicas, err = strconv.Atoi(text); err != nil || at.replicas < 1 || at.replicas > 5 {
			return nil, errors.New("replicas is a number from 1 to 5")
		}
	}
	files := make(map[string]string)
	for _, key := range []string{"creds", "tls_ca", "tls_cert", "tls_key"} {
		if files[key] = take(key); files[key] != "" && !filepath.IsAbs(files[key]) {
			return nil, errors.New("creds, tls_ca, tls_cert and tls_key are absolute paths")
		}
	}
	name := take("tls_name")
	if len(q) > 0 {
		keys := make([]string, 0, len(q))
		for key := range q {
			keys = append(keys, key)
		}
		slices.Sort(keys)
		return nil, fmt.Errorf("unexpected parameter: %s; %s", strings.Join(keys, ", "), want)
	}
	var options []natsgo.Option
	switch {
	case u.Scheme == "tls":
		options = append(options,
			natsgo.Secure(&tls.Config{MinVersion: tls.VersionTLS12, ServerName: name}))
		if files["tls_ca"] != "" {
			options = append(options, natsgo.RootCAs(files["tls_ca"]))
		}
		if (files["tls_cert"] == "") != (files["tls_key"] == "") {
			return nil, errors.New("tls_cert and tls_key go together")
		}
		if files["tls_cert"] != "" {
			options = append(options, natsgo.ClientCert(files["tls_cert"], files["tls_key"]))
		}
	case files["tls_ca"]+files["tls_cert"]+files["tls_key"]+name != "":
		return nil, errors.New("tls_ca, tls_cert, tls_key and tls_name are for tls://")
	}
	if path := files["creds"]; path != "" {
		if _, err := os.ReadFile(path); err != nil {
			return nil, fmt.Errorf("creds: %w", err)
		}
		options = append(options, natsgo.UserCredentials(path))
	}
	options = append(options,
		natsgo.Name("lwango"),
		natsgo.Timeout(engine.AnswerTimeout), natsgo.FlusherTimeout(engine.AnswerTimeout),
		natsgo.PingInterval(engine.AnswerTimeout/2), natsgo.MaxPingsOutstanding(2),
		natsgo.MaxReconnects(-1), natsgo.IgnoreAuthErrorAbort(),
		// What cannot be sent at once waits in the outbox.
		natsgo.ReconnectBufSize(-1),
	)
	for _, o := range options {
		if err := o(&at.options); err != nil {
			return nil, errors.New(strings.TrimPrefix(err.Error(), "nats: "))
		}
	}
	return at, nil
}

var errAddr = errors.New("addr is a host and a port, as in host:4222")

// server returns the URL of a server, which is asked with the user and password of the first one.
func server(u *url.URL, addr string) string {
	return (&url.URL{Scheme: u.Scheme, User: u.User, Host: addr}).String()
}

// hosts returns the servers, for a log.
func (at *target) hosts() string {
	var all []string
	for _, s := range at.options.Servers {
		all = append(all, s[strings.LastIndexAny(s, "/@")+1:])
	}
	return strings.Join(all, ",")
}
