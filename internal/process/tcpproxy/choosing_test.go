package tcpproxy_test

import (
	"crypto/tls"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// TestAllowAndDeny: clients that may not connect are closed, also one that only a proxy's header
// names.
func TestAllowAndDeny(t *testing.T) {
	t.Parallel()
	up := upstream(t, echo("hello"))
	for keys, refused := range map[string]bool{
		"allow = '127.0.0.0/8'":                           false,
		"allow = '10.0.0.0/8'":                            true,
		"deny = '127.0.0.1'":                              true,
		"allow = '127.0.0.0/8'\ndeny = '127.0.0.1'":       true,
		"allow = '127.0.0.1'\ndeny = ['::1', '10.0.0.1']": false,
	} {
		s := serve(t, strings.Replace(one, "LOG", keys, 1)+"'"+up+"'")
		c := s.dial()
		if refused {
			wantsEnd(t, c, "")
		} else {
			wants(t, c, "hello")
		}
		if refused { // which is counted once the connection is closed
			wait.Until(t, "a refusal", func() bool { return s.counts().Refused == 1 })
		} else if n := s.counts(); n.Refused != 0 {
			t.Errorf("%s: counts %+v", keys, n)
		}
	}
	s := serve(t, strings.Replace(one, "LOG", "LOG\ndeny = '192.0.2.0/24'\nproxy_protocol = true\n"+
		"trusted_proxies = '127.0.0.1'", 1)+"'"+up+"'")
	for client, want := range map[string]string{"192.0.2.7": "", "198.51.100.7": "hello"} {
		c := s.dial()
		says(t, c, "PROXY TCP4 "+client+" 192.0.2.1 1 2\r\n")
		if want == "" {
			wantsEnd(t, c, "")
		} else {
			wants(t, c, want)
		}
		_ = c.Close()
	}
	if all := strings.Join(s.log(2), "\n"); !strings.Contains(all, `"denied"`) {
		t.Errorf("log: %s", all)
	}
}

// TestHashOfName: connections for one name go to one address, without a route for any name.
func TestHashOfName(t *testing.T) {
	t.Parallel()
	a := certs.New(t)
	var ups []string
	for i := range 3 {
		ups = append(ups, "'"+secure(t, a, fmt.Sprintf("%d.example", i))+"'")
	}
	s := serve(t, one+"["+strings.Join(ups, ", ")+"]\nbalance = 'hash'\nhash = '{name}'")
	seen := map[string]bool{}
	for name := range 16 {
		ask := func() string {
			c := tls.Client(s.dial(), &tls.Config{ServerName: fmt.Sprintf("n%d.example", name),
				InsecureSkipVerify: true})
			must.Do(t, c.Handshake())
			must.Do(t, c.CloseWrite())
			return string(must.Get(io.ReadAll(c))(t))
		}
		first, second := ask(), ask()
		if first != second {
			t.Errorf("n%d.example: %s, and then %s", name, first, second)
		}
		seen[first] = true
	}
	if len(seen) < 2 {
		t.Errorf("all names went to %v", seen)
	}
}
