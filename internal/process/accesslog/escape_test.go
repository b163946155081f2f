package accesslog_test

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"reflect"
	"strings"
	"testing"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/process/accesslog"
	"github.com/lwango/lwango/internal/test/must"
)

// hostile is text of a client that would end a string, a line and a field, and fill a disk.
var hostile = "a\" \\\n\r\t\x00\x1b[2J\u2028\u0085\xff}, \"status\":200" +
	strings.Repeat("\n\"x", 16<<10)

// fill puts hostile text into all texts of a struct, so that a field which comes later is tried as
// well.
func fill(e any) {
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		switch f := v.Field(i); {
		case !f.CanSet():
		case f.Kind() == reflect.String:
			f.SetString(hostile)
		case f.Type() == reflect.TypeFor[[]byte]():
			f.SetBytes([]byte(hostile))
		case f.Type() == reflect.TypeFor[netip.AddrPort]():
			f.Set(reflect.ValueOf(netip.AddrPortFrom(netip.MustParseAddr("fe80::1").WithZone(hostile), 1)))
		case f.CanUint():
			f.SetUint(1)
		case f.CanInt():
			f.SetInt(1)
		}
	}
}

// judge finds what a line must not have.
func judge(t *testing.T, format string, line []byte) {
	t.Helper()
	text, ended := bytes.CutSuffix(line, []byte("\n"))
	if bad := bytes.IndexFunc(text, func(r rune) bool {
		return r < ' ' || 0x7f <= r && r < 0xa0
	}); !ended || bad >= 0 {
		t.Errorf("%s: %.300q has a control character, or no end", format, line)
	}
	if len(line) > 3<<10 {
		t.Errorf("%s: %d bytes", format, len(line))
	}
	switch {
	case format == "json":
		if !json.Valid(line) {
			t.Errorf("%q is no JSON", line)
		}
	case strings.HasPrefix(format, "{"):
		if bytes.ContainsRune(text, '"') {
			t.Errorf("%s: %.300q has a quote of its own", format, line)
		}
	}
}

// TestForgedText: no text of a client, whatever it is, makes a line, a field or a megabyte of its
// own.
func TestForgedText(t *testing.T) {
	requests, connections := accesslog.Placeholders()
	formats := func(names []string, more ...string) []string {
		for _, name := range names {
			more = append(more, "{"+name+"}")
		}
		return more
	}
	for _, method := range []bool{true, false} {
		var e conn.AccessEntry
		fill(&e)
		if !method {
			e.Method = ""
		}
		for _, format := range formats(requests, "combined", "common", "json") {
			judge(t, format, must.Get(accesslog.LineOf(format))(t)(&e))
		}
	}
	var c accesslog.Connection
	fill(&c)
	for _, format := range formats(connections, "json", "") {
		judge(t, format, must.Get(accesslog.LineOfConnection(format))(t)(&c))
	}
}
