package redis_test

import (
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lwango/lwango/internal/test/broker"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/pubsub"
	"github.com/lwango/lwango/pubsub/redis"
)

// TLS with a certificate of the client's, and a user of an access list, who may use lwango's keys
// alone. The server's name, and the client's certificate, are judged.
func TestTLS(t *testing.T) {
	a := certs.New(t)
	pem := func(names ...string) (cert, key string) { return a.Files(a.Issue(time.Hour, names...)) }
	cert, key := pem("broker.example")
	ln := must.Listen(t)
	address := ln.Addr().String()
	ln.Close()
	_, port, _ := strings.Cut(address, ":")
	b := broker.Start(t, "--tls-port", port, "--tls-cert-file", cert, "--tls-key-file", key,
		"--tls-ca-cert-file", a.File, "--tls-auth-clients", "yes")
	b.Do("ACL SETUSER app on >secret ~lwango:* +@stream +@connection +time +pexpire +multi +exec")
	mine, mineKey := pem("client.example")
	q := url.Values{"tls_ca": {a.File}, "tls_cert": {mine}, "tls_key": {mineKey},
		"tls_name": {"broker.example"}}
	at := func(user string, change ...string) string {
		q := must.Get(url.ParseQuery(q.Encode()))(t)
		for i := 0; i < len(change); i += 2 {
			q.Set(change[i], change[i+1])
		}
		return fmt.Sprintf("rediss://%s@%s?%s", user, address, q.Encode())
	}
	one, two := startNode(t, at("app:secret")), startNode(t, at("app:secret"))
	follower := two.Follow(two.Hub.Topic("room"), pubsub.Options{})
	publish(one.Hub.Topic("room"), numbered("a", 0, 100)...)
	follower.Expect(numbered("a", 0, 100)...)
	if !one.Hub.Carried() || !two.Hub.Carried() {
		t.Error("not carried")
	}
	for _, row := range []struct{ url, want string }{
		{at("app:secret", "tls_name", "other.example"), "other.example"},
		{at("app:secret", "tls_cert", "", "tls_key", ""), "certificate"},
		{at("app:secret", "tls_ca", ""), "authority"},
		{at("app:wrong"), "WRONGPASS"},
		{at("other:secret"), "WRONGPASS"},
	} {
		text := "deadline exceeded"
		for strings.Contains(text, "deadline exceeded") { // on a busy machine, before the fault shows
			var log logtext.Buffer
			n := startNodeLogging(t, row.url, &log)
			n.Status.Expect("local")
			text = log.String()
			n.Stop(0)
		}
		if !strings.Contains(text, row.want) || strings.Contains(text, "secret") {
			t.Errorf("want %q: %s", row.want, text)
		}
	}
}

// What a URL says of TLS, Sentinel and a cluster.
func TestCheckOfSeveral(t *testing.T) {
	a := certs.New(t)
	cert, key := a.Files(a.Issue(time.Hour, "x"))
	empty := filepath.Join(t.TempDir(), "empty")
	must.Do(t, os.WriteFile(empty, nil, 0o600))
	for _, row := range []struct{ url, want string }{
		{"redis+cluster://u:p@one:7000?addr=two:7001&addr=[::1]:7002", ""},
		{"rediss+cluster://one?replicas=1", ""},
		{"redis+sentinel://u:p@one/3?master_name=main&addr=two:26379", ""},
		{"rediss+sentinel://one?master_name=main&sentinel_username=s&sentinel_password=secret", ""},
		{"rediss://one?tls_ca=" + a.File + "&tls_cert=" + cert + "&tls_key=" + key, ""},
		{"rediss://one?skip_verify=true", ""},
		{"unix+cluster:///run/redis.sock", "no host; "},
		{"http+cluster://one", "no such scheme; "},
		{"redis+cluster+sentinel://one?master_name=main", "no such scheme; "},
		{"redis+cluster://one/1", "a cluster has one database, 0"},
		{"redis+sentinel://one", "master_name is"},
		{"redis://one?master_name=main", "master_name is"},
		{"redis://one?sentinel_password=secret", "sentinel_username and sentinel_password are for"},
		{"redis://one?addr=two:1", "addr is for"},
		{"redis+cluster://one?addr=two", "addr is a host and a port"},
		{"redis://one?replicas=x", "replicas is a number"},
		{"redis://one?replicas=-1", "replicas is a number"},
		{"redis://one?tls_name=x", "tls_ca, tls_cert, tls_key and tls_name are for rediss://"},
		{"rediss://one?tls_ca=ca.pem", "tls_ca, tls_cert and tls_key are absolute paths"},
		{"rediss://one?tls_cert=" + cert, "tls_cert and tls_key go together"},
		{"rediss://one?tls_ca=/does/not/exist", "tls_ca: "},
		{"rediss://one?tls_ca=" + empty, "tls_ca: no certificate in the file"},
		{"rediss://one?tls_cert=" + cert + "&tls_key=" + empty, "tls_cert: "},
		{"redis+cluster://one?what=1", "unexpected option: what"},
	} {
		err := redis.Check(row.url)
		if row.want == "" && err != nil ||
			row.want != "" && (err == nil || !strings.Contains(err.Error(), row.want)) {
			t.Errorf("%s: %v", row.url, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") &&
			!strings.Contains(err.Error(), "sentinel_password") {
			t.Errorf("%s: %v", row.url, err)
		}
	}
}
