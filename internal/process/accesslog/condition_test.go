package accesslog_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/process/accesslog"
)

// TestMembers: an object with members of the configuration is valid JSON whatever a client sends,
// numbers are numbers, and what has no value is left out.
func TestMembers(t *testing.T) {
	line, err := accesslog.LineOfKeys(map[string]string{
		"status": "{status}", "took": "{duration}", "up": "{upstream_time}", "close": "{close}",
		"target": "{target}", "agent": "{user_agent}", "both": "a {method} {status} \" {proto}",
		"always": "x", "user": "{user}", "request": "{request}", "@timestamp": "{time_iso8601}",
	}, "", nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, evil := range []string{"", "x", `","status":500,"x":"`, "\x00\x1b[31m\u009b", "\xff\xfe",
		"\\", strings.Repeat("\"", 4000), "\u202e"} {
		e := entry()
		e.Target, e.UserAgent, e.User = []byte(evil), []byte(evil), evil
		b := line(e)
		if len(b) > 2<<10 || strings.IndexByte(string(b), '\n') != len(b)-1 {
			t.Errorf("%q: %d bytes: %s", evil, len(b), b)
		}
		for _, c := range b[:len(b)-1] {
			if c < ' ' {
				t.Errorf("%q: a control character in %q", evil, b)
			}
		}
		var got map[string]any
		if err := json.Unmarshal(b, &got); err != nil {
			t.Errorf("%q: %v in %s", evil, err, b)
			continue
		}
		if got["status"] != 200.0 || got["always"] != "x" || got["up"] != nil || got["close"] != nil {
			t.Errorf("%q: %s", evil, b)
		}
		if _, ok := got["took"].(float64); !ok {
			t.Errorf("%q: duration is %v", evil, got["took"])
		}
		if _, ok := got["agent"]; ok != (evil != "") {
			t.Errorf("%q: agent is %v", evil, got["agent"])
		}
		if want := "GET " + evil + " HTTP/1.1"; len(evil) < 20 && evil == "x" && got["request"] != want {
			t.Errorf("request is %v", got["request"])
		}
	}
}

// TestConditions: which requests have a line.
func TestConditions(t *testing.T) {
	for _, row := range []struct {
		condition string
		statuses  []string
		status    int
		want      bool
	}{
		{"", nil, 200, true}, {"", []string{"5xx"}, 200, false}, {"", []string{"5xx"}, 502, true},
		{"", []string{"404", "4xx"}, 404, true}, {"", []string{"404"}, 403, false},
		{"", []string{"499"}, 499, true},
		// Without a request the condition does not count: see TestAccessLogOfRoutes.
		{"{user}", nil, 200, true}, {"0", []string{"2xx"}, 200, true},
	} {
		line, err := accesslog.LineOfKeys(map[string]string{"a": "b"}, row.condition, row.statuses)
		if err != nil {
			t.Fatal(err)
		}
		e := entry()
		e.Status = row.status
		if got := len(line(e)) > 0; got != row.want {
			t.Errorf("%+v: %v", row, got)
		}
	}
}

// TestWrongKeys: the errors of a table.
func TestWrongKeys(t *testing.T) {
	for _, row := range []struct {
		members   map[string]string
		condition string
		statuses  []string
		want      string
	}{
		{map[string]string{"a b": "x"}, "", nil, `"a b": expected a name`},
		{map[string]string{"a": "{nope}"}, "", nil, "a: "},
		{map[string]string{"a": "$status"}, "", nil, "$status: placeholders are written in braces"},
		{nil, "", nil, "expected members"},
		{map[string]string{"a": "x"}, "{nope}", nil, "nope"},
		{map[string]string{"a": "x"}, "", []string{"6"}, `found "6"`},
		{map[string]string{"a": "x"}, "", []string{"0xx"}, `found "0xx"`},
		{map[string]string{"a": "x"}, "", []string{"1000"}, `found "1000"`},
	} {
		if _, err := accesslog.LineOfKeys(row.members, row.condition, row.statuses); err == nil ||
			!strings.Contains(err.Error(), row.want) {
			t.Errorf("%+v: %v, want %s", row, err, row.want)
		}
	}
}
