package server_test

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/openfiles"
	"github.com/lwango/lwango/internal/test/logtext"
)

// TestManyStaticSites: however many routes keep files at hand, connections have the most part of
// the descriptors, and the log has no warning.
func TestManyStaticSites(t *testing.T) {
	log := new(logtext.Buffer)
	s := source()
	s.Logger = logtext.Logger(t, log)
	var text strings.Builder
	for i := range 100 {
		fmt.Fprintf(&text, "[[site]]\nhost = \"s%d.example\"\n[[site.route]]\nprefix = \"/\"\n"+
			"module = \"serve_files\"\npath = \".\"\nopen_files = 1000000\n", i)
	}
	serve(t, s, text.String())
	if strings.Contains(log.String(), "connections") {
		t.Error(log)
	}
}

// TestTooManyConnections: the warning about max_connections shows what the descriptor limit is used
// for, so that the operator sees why there is room for fewer.
func TestTooManyConnections(t *testing.T) {
	log := new(logtext.Buffer)
	s := source()
	s.Logger = logtext.Logger(t, log)
	serve(t, s, "max_connections = 100000000\n"+
		route("prefix = \"/\"\nmodule = \"serve_files\"\npath = \".\"\nopen_files = 1000000\n"))
	found := regexp.MustCompile(`max_connections=100000000 descriptor_limit=(\d+) reserved=(\d+) ` +
		`of_these_by_routes=2 kept_at_hand=(\d+) left=(\d+)`).FindStringSubmatch(log.String())
	if found == nil {
		t.Fatal(log)
	}
	var n [4]int
	for i := range n {
		n[i], _ = strconv.Atoi(found[i+1])
	}
	limit := openfiles.Process.Limit()
	if n[0] != limit || n[1] < 35 || n[1] > 100 || n[2] != limit/8 || n[3] != n[0]-n[1]-n[2] {
		t.Error(n)
	}
}
