package nats_test

import (
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/nats"
)

// TLS with a certificate of the client's. The server's name, and the client's certificate, are
// judged.
func TestTLS(t *testing.T) {
	a := certs.New(t)
	pem := func(names ...string) (cert, key string) { return a.Files(a.Issue(time.Hour, names...)) }
	b := startBroker(t, func(s *settings) {
		s.Cert, s.Key = pem("broker.example")
		s.CAs = a.File
	})
	mine, mineKey := pem("client.example")
	q := url.Values{"tls_ca": {a.File}, "tls_cert": {mine}, "tls_key": {mineKey},
		"tls_name": {"broker.example"}}
	at := func(change ...string) string {
		q := must.Get(url.ParseQuery(q.Encode()))(t)
		for i := 0; i < len(change); i += 2 {
			q.Set(change[i], change[i+1])
		}
		return "tls://" + b.addr() + "?" + q.Encode()
	}
	one, two := startNode(t, at()), startNode(t, at())
	follower := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(one.Hub.Topic("room"), numbered("a", 0, 100)...)
	follower.Expect(numbered("a", 0, 100)...)
	for _, row := range []struct{ url, want string }{
		{at("tls_name", "other.example"), "other.example"},
		{at("tls_cert", "", "tls_key", ""), "tls"},
		{at("tls_ca", ""), "authority"},
		{"nats://" + b.addr(), "certificate"}, // the server asks for TLS
	} {
		text := "timeout"
		// On a busy machine that may come before the fault shows.
		for strings.Contains(text, "timeout") || strings.Contains(text, "deadline") {
			var log logtext.Buffer
			n := startNodeLogging(t, row.url, &log)
			n.Status.Expect("local")
			text = log.String()
			n.Stop(0)
		}
		if !strings.Contains(text, row.want) {
			t.Errorf("want %q: %s", row.want, text)
		}
	}
}

func TestCheck(t *testing.T) {
	a := certs.New(t)
	cert, key := a.Files(a.Issue(time.Hour, "x"))
	empty := filepath.Join(t.TempDir(), "empty")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	for _, row := range []struct{ url, want string }{
		{"nats://one", ""},
		{"nats://u:p%2Fw@one:4222?addr=two:4222&addr=[::1]:4222&stream=mine&replicas=3", ""},
		{"tls://token@one?tls_ca=" + a.File + "&tls_cert=" + cert + "&tls_key=" + key, ""},
		{"nats://one?creds=" + empty, ""}, // it is read when the server asks for it
		{"", "no such scheme; "},
		{"redis://one", "no such scheme; "},
		{"nats://", "no host; "},
		{"nats://u:sec ret@one", "; expected something like"},
		{"nats://u:1#secret@one", "in a password is written"},
		{"nats://u:1?secret@one", "in a password is written"},
		{"nats://u:1/secret@one", "in a password is written"},
		{"nats://u:secret@one/path", "in a password is written"},
		{"nats://u:secret%2@one", "; expected something like"},
		{"nats://one?addr=two", "addr is a host and a port"},
		{"nats://one?stream=a.b", "stream is a name"},
		{"nats://one?replicas=6", "replicas is a number"},
		{"nats://one?tls_name=x", "tls_ca, tls_cert, tls_key and tls_name are for tls://"},
		{"tls://one?tls_ca=ca.pem", "creds, tls_ca, tls_cert and tls_key are absolute paths"},
		{"tls://one?tls_cert=" + cert, "tls_cert and tls_key go together"},
		{"tls://one?tls_ca=/does/not/exist", "/does/not/exist"},
		{"tls://one?tls_ca=" + empty, "failed to parse root certificate"},
		{"nats://one?creds=/does/not/exist", "creds: "},
		{"nats://u:secret@one?what=1", "unexpected parameter: what"},
	} {
		err := nats.Check(row.url)
		if row.want == "" && err != nil ||
			row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v", row.url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: %v", row.url, err)
		}
	}
}
