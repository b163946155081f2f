package settings_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/lwango/lwango/internal/base/settings"
)

func TestChanges(t *testing.T) {
	before := `
grace = "1s"
drain = "1m"
same = ["a", "b"]
[pubsub]
url = "redis://secret@x"
max_bytes = 1
[headers]
X-A = "1"
[[listener]]
address = "*:80"
[[listener]]
address = "*:81"
[[site]]
host = "a"
[[site.route]]
prefix = "/"
[[site]]
host = ["b", "c"]
[[site]]
[[site]]
x = 1
`
	after := `
grace = "2s"
threads = 1
same = ["a", "b"]
[pubsub]
url = "redis://other@x"
max_bytes = 1
[[listener]]
address = "*:80"
tls = { cert = "x", key = "y" }
[[listener]]
address = "*:82"
[[site]]
host = ["b", "c"]
[[site]]
host = "a"
[[site.route]]
prefix = "/other"
[[site]]
[[site]]
x = 2
`
	ids := map[string]string{"listener": "address", "site": "host"}
	root := func(text string) settings.Table {
		f := settings.Parse("t", ".", text)
		if f.Err() != nil {
			t.Fatal(f.Err())
		}
		return f.Root()
	}
	added, removed, changed := settings.Changes(root(before), root(after), ids)
	got := slices.Concat([]string{"added"}, added, []string{"removed"}, removed, []string{"changed"},
		changed)
	want := []string{"added", `listener "*:82"`, "threads", "removed", "drain", "headers.X-A",
		`listener "*:81"`,
		"changed", "grace", `listener "*:80"`, "pubsub.url", `site "*" (line 20)`, `site "a"`}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	added, removed, changed = settings.Changes(root(after), root(after), ids)
	if len(added)+len(removed)+len(changed) > 0 {
		t.Error(added, removed, changed)
	}
	// What only looks alike differs.
	_, _, changed = settings.Changes(root(`a = ["b c"]`), root(`a = ["b", "c"]`), ids)
	if len(changed) != 1 {
		t.Error(changed)
	}
}
