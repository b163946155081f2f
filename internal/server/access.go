package server

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"strings"
	"syscall"
)

// access says which users may connect to a UNIX socket: the permissions and the owner of its file.
// A client needs the right to write (unix(7)). The zero access changes nothing.
type access struct {
	mode        fs.FileMode // set if chmod
	chmod       bool
	user, group int // set if chown; -1: leave
	chown       bool
}

// set gives the file its mode and owner. What it has already is left alone: a process that has given
// up root may not change the sockets that root has made, and a reload need not.
func (a access) set(path string) error {
	if !a.chown && !a.chmod {
		return nil
	}
	info, err := os.Lstat(path)
	if err != nil {
		return err
	}
	has := info.Sys().(*syscall.Stat_t)
	other := func(wanted int, id uint32) bool { return wanted >= 0 && uint32(wanted) != id }
	if a.chown && (other(a.user, has.Uid) || other(a.group, has.Gid)) {
		if err := os.Lchown(path, a.user, a.group); err != nil {
			return err
		}
	}
	if a.chmod && info.Mode().Perm() != a.mode {
		return os.Chmod(path, a.mode)
	}
	return nil
}

// parseAccess reads a listener's mode and owner.
func (l *listenerConfig) parseAccess() {
	if l.Address.Network != "unix" {
		for _, key := range []string{"mode", "owner"} {
			if l.Table.Has(key) {
				l.Table.Errorf(key, "is for the file of a unix: address")
			}
		}
		return
	}
	if l.Table.Has("mode") {
		n, err := strconv.ParseUint(l.Mode, 8, 16)
		if err != nil || n > 0o777 {
			l.Table.Errorf("mode", "expected permissions in octal, such as \"0660\", found %q",
				l.Mode)
		}
		l.Access.mode, l.Access.chmod = fs.FileMode(n), true
	}
	if l.Table.Has("owner") {
		name, group, _ := strings.Cut(l.Owner, ":")
		if name == "" && group == "" {
			l.Table.Errorf("owner", "expected \"user:group\", \"user\" or \":group\", found %q",
				l.Owner)
			return
		}
		a := &l.Access
		a.chown = true
		var err error
		if a.user, err = number(name, userID); err != nil {
			l.Table.Errorf("owner", "%v", err)
		} else if a.group, err = number(group, groupID); err != nil {
			l.Table.Errorf("owner", "%v", err)
		}
	}
}

// number returns the number of a user or a group, given by name or by number; -1 for an empty name.
func number(name string, lookUp func(string) (string, error)) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(n), nil
	}
	id, err := lookUp(name)
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(id)
}

func userID(name string) (string, error) {
	u, err := user.Lookup(name)
	switch {
	case errors.As(err, new(user.UnknownUserError)):
		return "", errors.New("there is no user " + strconv.Quote(name))
	case err != nil:
		return "", err
	}
	return u.Uid, nil
}

func groupID(name string) (string, error) {
	g, err := user.LookupGroup(name)
	switch {
	case errors.As(err, new(user.UnknownGroupError)):
		return "", errors.New("there is no group " + strconv.Quote(name))
	case err != nil:
		return "", err
	}
	return g.Gid, nil
}
