package server_test

import (
	"runtime"
	"runtime/debug"
	"testing"

	"github.com/lwango/lwango/internal/process/server"
)

// TestVersion: the commit is that of this module, from the linker or from the go command.
func TestVersion(t *testing.T) {
	const path = "github.com/lwango/lwango"
	vcs := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
		{Key: "vcs.modified", Value: "false"}}
	changed := []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"},
		{Key: "vcs.modified", Value: "true"}}
	own := debug.Module{Path: path, Version: "v1.2.3"}
	for _, row := range []struct {
		release, commit string
		info            debug.BuildInfo
		want            string
	}{
		{"", "", debug.BuildInfo{}, "lwango (devel)"},
		{"", "", debug.BuildInfo{Main: own}, "lwango v1.2.3"},
		{"", "", debug.BuildInfo{Main: own, Settings: vcs}, "lwango v1.2.3 commit abc"},
		{"", "", debug.BuildInfo{Main: own, Settings: changed}, "lwango v1.2.3 commit abc with changes"},
		{"", "", debug.BuildInfo{Main: debug.Module{Path: "x"}, Deps: []*debug.Module{&own},
			Settings: vcs}, "lwango v1.2.3"},
		{"v9", "def", debug.BuildInfo{Main: own, Settings: changed}, "lwango v9 commit def"},
	} {
		if got := server.VersionOf(row.release, row.commit, &row.info); got != row.want+" "+
			runtime.Version() {
			t.Errorf("%s, want %s", got, row.want)
		}
	}
}
