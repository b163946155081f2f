package server

import (
	"cmp"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

const modulePath = "github.com/lwango/lwango"

// release and commit are set by the linker in a build outside a repository, such as that of a
// package from the sources of a release (contrib/deb).
var release, commit string

// version returns the version of this module, in its own program and in others that import it, with
// the commit, if known, and the version of Go.
func version() string { return versionOf(release, commit, buildInfo()) }

// moduleVersion returns the version of this module alone.
func moduleVersion() string { return releaseOf(release, buildInfo()) }

func buildInfo() *debug.BuildInfo {
	if info, ok := debug.ReadBuildInfo(); ok {
		return info
	}
	return new(debug.BuildInfo)
}

func releaseOf(release string, info *debug.BuildInfo) string {
	all := append(slices.Clone(info.Deps), &info.Main)
	i := slices.IndexFunc(all, func(m *debug.Module) bool { return m.Path == modulePath })
	if release == "" && i >= 0 {
		release = all[i].Version
	}
	return cmp.Or(release, "(devel)")
}

func versionOf(release, commit string, info *debug.BuildInfo) string {
	// The commit of another program says nothing of this module.
	if commit == "" && info.Main.Path == modulePath {
		commit = setting(info, "vcs.revision")
		if commit != "" && setting(info, "vcs.modified") == "true" {
			commit += " with changes"
		}
	}
	words := []string{"lwango", releaseOf(release, info)}
	if commit != "" {
		words = append(words, "commit", commit)
	}
	return strings.Join(append(words, runtime.Version()), " ")
}

func setting(info *debug.BuildInfo, key string) string {
	for _, s := range info.Settings {
		if s.Key == key {
			return s.Value
		}
	}
	return ""
}
