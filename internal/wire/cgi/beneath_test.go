package cgi_test

import (
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/sysio"
	"github.com/lwango/lwango/internal/test/links"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/wire/cgi"
)

func TestBeneath(t *testing.T) {
	root := links.Folder(t)
	folder := must.Get(sysio.OpenFolder(root))(t)
	for name, want := range map[string]cgi.Entry{
		"a.php": cgi.Regular, "inside.php": cgi.Regular, "sub": cgi.Folder, "fifo": cgi.Special,
		"b.php": cgi.Absent, "outside.php": cgi.Absent, "absolute.php": cgi.Absent,
		"up/out.php": cgi.Absent,
		"round":      cgi.Absent,
		"a.php/b":    cgi.Absent, "../out.php": cgi.Absent, "a\x00.php": cgi.Absent,
		"..": cgi.Absent, "sub/b.php": cgi.Regular, "same": cgi.Folder, "same/b.php": cgi.Regular,
		"sub/back.php": cgi.Regular, "sub/out.php": cgi.Absent, "sub/c.php": cgi.Absent,
		"folder": cgi.Absent, "magic": cgi.Absent, "magic/etc/passwd": cgi.Absent,
		"sub/" + strings.Repeat("n", 300): cgi.Absent, "sub/a\x00.php": cgi.Absent,
		strings.Repeat("n", 300): cgi.Absent,
	} {
		if got, err := (cgi.Beneath{Folder: folder}).Stat(name); got != want || err != nil {
			t.Errorf("%.20q: %d, %v, want %d", name, got, err, want)
		}
	}
}
