package upstream_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/upstream"
)

// TestOverflow: where requests go whose address has all its connections, as nginx has it: to others
// of the same kind, then to backups, and when these are full, too, to none. A weight makes no more
// room.
func TestOverflow(t *testing.T) {
	t.Parallel()
	const rr, least, random, hash = upstream.RoundRobin, upstream.LeastConn, upstream.Random,
		upstream.Hash
	for _, tt := range []struct {
		name, addresses string
		balance         upstream.Balance
		most            int
		want            string // the last digit of each address, "-" for none; sorted: in any order
		sorted          bool
	}{
		{"no limit", "1.1.1.1:80,1.1.1.2:80", rr, 0, "1212", false},
		{"one", "1.1.1.1:80", rr, 3, "111-", false},
		{"two", "1.1.1.1:80,1.1.1.2:80", rr, 1, "12--", false},
		{"a weight", "1.1.1.1:80 weight=3,1.1.1.2:80", rr, 1, "12-", false},
		{"a backup", "1.1.1.1:80,1.1.1.2:80 backup", rr, 2, "1122--", false},
		{"two and a backup", "1.1.1.1:80,1.1.1.2:80,1.1.1.3:80 backup", rr, 1, "123-", false},
		{"least_conn", "1.1.1.1:80,1.1.1.2:80", least, 2, "1212-", false},
		{"least_conn, a weight", "1.1.1.1:80 weight=2,1.1.1.2:80", least, 2, "1122-", true},
		{"least_conn, a backup", "1.1.1.1:80,1.1.1.2:80 backup", least, 2, "1122-", false},
		{"random", "1.1.1.1:80,1.1.1.2:80", random, 2, "1122-", true},
		{"random, a backup", "1.1.1.1:80,1.1.1.2:80 backup", random, 2, "1122-", false},
		{"hash", "1.1.1.1:80,1.1.1.2:80", hash, 2, "1122-", true},
		{"hash, a backup", "1.1.1.1:80,1.1.1.2:80 backup", hash, 1, "12-", false},
	} {
		g, err := new(upstream.Pool).Group(upstream.Settings{Addresses: strings.Split(tt.addresses, ","),
			Balance: tt.balance, MaxConns: tt.most, MaxQueue: 9})
		if err != nil {
			t.Fatal(err)
		}
		got, gives := "", []func(){}
		for range tt.want {
			address, give := upstream.Take(g, 1)
			gives = append(gives, give)
			if got += strings.TrimSuffix(address, ":80"); address == "" {
				got += "-"
			}
		}
		got = strings.ReplaceAll(got, "1.1.1.", "")
		if tt.sorted {
			a, b, n := strings.Count(got, "1"), strings.Count(got, "2"), strings.Count(got, "-")
			got = strings.Repeat("1", a) + strings.Repeat("2", b) + strings.Repeat("-", n)
		}
		if got != tt.want {
			t.Errorf("%s: %s, want %s", tt.name, got, tt.want)
		}
		gives[0]()
		if address, give := upstream.Take(g, 1); address == "" {
			t.Errorf("%s: none, where one was given back", tt.name)
		} else {
			give()
		}
		for _, give := range gives[1:] {
			give()
		}
	}
}
