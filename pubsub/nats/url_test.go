package nats_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/pubsub/nats"
)

// What the client could not parse is refused before: its error would quote the password.
func TestCheckServers(t *testing.T) {
	for addr, ok := range map[string]bool{
		"host2:4222": true, "[::1]:4222": true, "": false, "host2": false, "host2:": false,
		":4222": false, "host2:nats": false, "host2:0": false, "host2:70000": false,
		"ho%20st:4222": false, "a/b:4222": false, "a%40b:4222": false,
	} {
		err := nats.Check("nats://app:s3cret@host:4222?addr=" + addr)
		if (err == nil) != ok || err != nil && strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", addr, err)
		}
	}
}
