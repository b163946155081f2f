package sockets_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/sockets"
)

func TestParseAddress(t *testing.T) {
	long := "/" + strings.Repeat("x", 107)
	tests := []struct{ in, want string }{
		{"*:8080", "*:8080"},
		{":8080", "*:8080"},
		{"127.0.0.1:0", "127.0.0.1:0"},
		{"localhost:80", "127.0.0.1:80"},
		{"[::1]:8080", "[::1]:8080"},
		{"[0:0::1]:08080", "[::1]:8080"}, // one spelling, so that the same address twice is found
		{"[fe80::1%lo]:80", "[fe80::1%lo]:80"},
		{"unix:/run/x.sock", "unix:/run/x.sock"},
		{"unix:x.sock", "unix:/etc/x.sock"},
		{"unix:../x.sock", "unix:/x.sock"},
		{"systemd:web", "systemd:web"},

		{"8080",
			`error: expected host:port, found "8080" (for port 8080 of all addresses write "*:8080")`},
		{"", `error: expected host:port, unix:path or systemd:name, found ""`},
		{"example.org", `error: expected host:port, unix:path or systemd:name, found "example.org"`},
		{"::1", `error: expected [address]:port, found "::1"`},
		{"example.org:80",
			`error: host "example.org": expected an IP address, * for all of them, or localhost`},
		{"127.0.0.1:http", `error: port "http": expected a number from 0 to 65535`},
		{"127.0.0.1:65536", `error: port "65536": expected a number from 0 to 65535`},
		{"127.0.0.1:-1", `error: port "-1": expected a number from 0 to 65535`},
		{"127.0.0.1:", `error: port "": expected a number from 0 to 65535`},
		{"tcp:127.0.0.1:80",
			`error: expected host:port, unix:path or systemd:name, found "tcp:127.0.0.1:80"`},
		{"unix:", `error: expected a path behind unix:`},
		{"unix:" + long, fmt.Sprintf("error: the path of a UNIX socket has at most 107 bytes, %s has 108",
			long)},
		{"unix:@x", `error: expected the path of a file, found the abstract socket @x`},
		{"unix:./@x", "unix:/etc/@x"},
		{"systemd:", `error: expected the name of a socket behind systemd:`},
	}
	for _, test := range tests {
		addr, err := sockets.ParseAddress(test.in, "/etc")
		got := addr.String()
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != test.want {
			t.Errorf("ParseAddress(%q):\n got %s\nwant %s", test.in, got, test.want)
		}
		if err == nil {
			if again, err := sockets.ParseAddress(got, "/"); err != nil || again != addr {
				t.Errorf("ParseAddress(%q) = %v, %v, want what its String came from", got, again, err)
			}
		}
	}
}
