package confpath_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/confpath"
)

func TestJoin(t *testing.T) {
	for _, test := range []struct{ path, want string }{
		{"/srv/www", "/srv/www"},
		{"www", "/etc/www"},
		{"../srv/./www/", "/srv/www"},
		{".", "/etc"},
		{"", "/etc"},
	} {
		if got := confpath.Join("/etc", test.path); got != test.want {
			t.Errorf("Join(%q) = %q, want %q", test.path, got, test.want)
		}
	}
}

func TestSocket(t *testing.T) {
	fits, long := "/"+strings.Repeat("x", 106), "/"+strings.Repeat("x", 107)
	for _, test := range []struct {
		address, want string
		ok            bool
	}{
		{"unix:/run/x.sock", "/run/x.sock", true},
		{"unix:x.sock", "/etc/x.sock", true},
		{"unix:../x.sock", "/x.sock", true},
		{"unix:@name", "@name", true},
		{"unix:./@name", "/etc/@name", true},
		{"unix:" + fits, fits, true},
		{"unix:" + long, fmt.Sprintf("error: the path of a UNIX socket has at most 107 bytes, %s has 108",
			long), true},
		{"unix:", "error: expected a path behind unix:", true},
		{"127.0.0.1:80", "", false},
		{"/run/x.sock", "", false},
		{"UNIX:/run/x.sock", "", false},
	} {
		got, ok, err := confpath.Socket("/etc", test.address)
		if err != nil {
			got = "error: " + err.Error()
		}
		if got != test.want || ok != test.ok {
			t.Errorf("Socket(%q) = %s, %v, want %s, %v", test.address, got, ok, test.want, test.ok)
		}
	}
}
