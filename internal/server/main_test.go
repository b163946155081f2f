package server_test

import (
	"flag"
	"io"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/server"
)

// A program's own flags stand beside lwango's, in any order, and do not take its names away.
func TestParse(t *testing.T) {
	tests := []struct {
		args       string
		code       int // -1: the program goes on
		own        string
		out, error string // a part of it
	}{
		{"", -1, "none", "", ""},
		{"-own here", -1, "here", "", ""},
		{"-l localhost:0 -own here -r /", -1, "here", "", ""},
		{"-own here -x", 2, "here", "", "not defined: -x\nusage: "},
		{"-own", 2, "none", "", "needs an argument: -own\nusage: "},
		{"-n here", 2, "none", "", `invalid value "here" for flag -n`},
		{"argument", 2, "none", "", `unexpected argument "argument"`},
		{"-h", 0, "none", "\n  -own place\n", ""},
		{"-h", 0, "none", "usage: lwango [-c FILE]", ""},
		{"-v", 0, "none", "lwango ", ""},
	}
	for _, test := range tests {
		flags := flag.NewFlagSet("", flag.ContinueOnError)
		flags.SetOutput(io.Discard)
		own := flags.String("own", "none", "a `place`")
		flags.Int("n", 0, "")
		theirs := flags.Bool("v", false, "")
		var stdout, stderr strings.Builder
		o, code := server.Parse(strings.Fields(test.args), flags, &stdout, &stderr)
		if o != nil {
			code = -1
		}
		if code != test.code || *own != test.own || *theirs {
			t.Errorf("%s: code %d, -own %s, want %d, %s; -v %v", test.args, code, *own, test.code, test.own, *theirs)
		}
		for _, text := range []struct{ got, want string }{{stdout.String(), test.out}, {stderr.String(), test.error}} {
			if !strings.Contains(text.got, text.want) || text.want == "" && text.got != "" {
				t.Errorf("%s: printed %q, want %q", test.args, text.got, text.want)
			}
		}
	}
}

// Without flags of its own a program's usage is lwango's, and no more.
func TestUsageOfNoFlags(t *testing.T) {
	var stdout strings.Builder
	if _, code := server.Parse([]string{"-h"}, flag.NewFlagSet("", flag.ContinueOnError), &stdout, io.Discard); code != 0 {
		t.Errorf("code %d", code)
	}
	if strings.Contains(stdout.String(), "of this program") {
		t.Errorf("got %s", stdout.String())
	}
}
