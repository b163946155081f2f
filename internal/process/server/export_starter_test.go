package server

// NewStarter is what process pid finds out, where process 1 leads session and group 1.
func NewStarter(pid, session, group int, cgroup, main string, openRC bool) starter {
	s := starter{pid: pid, session: session, group: group, cgroup: cgroup, main: main, openRC: openRC}
	s.init.session, s.init.group = 1, 1
	return s
}

func (s starter) Orphan() bool { return s.orphan() }

var VersionOf = versionOf
