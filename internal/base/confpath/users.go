package confpath

import (
	"errors"
	"os/user"
	"strconv"
)

// UserID returns the number of a user, given by name or by number; -1 for an empty name.
func UserID(name string) (int, error) {
	return number(name, func() (string, error) {
		u, err := user.Lookup(name)
		if errors.As(err, new(user.UnknownUserError)) {
			return "", errors.New("there is no user " + strconv.Quote(name))
		} else if err != nil {
			return "", err
		}
		return u.Uid, nil
	})
}

// GroupID is UserID for a group.
func GroupID(name string) (int, error) {
	return number(name, func() (string, error) {
		g, err := user.LookupGroup(name)
		if errors.As(err, new(user.UnknownGroupError)) {
			return "", errors.New("there is no group " + strconv.Quote(name))
		} else if err != nil {
			return "", err
		}
		return g.Gid, nil
	})
}

func number(name string, lookUp func() (string, error)) (int, error) {
	if name == "" {
		return -1, nil
	}
	if n, err := strconv.ParseUint(name, 10, 31); err == nil {
		return int(n), nil
	}
	id, err := lookUp()
	if err != nil {
		return 0, err
	}
	return strconv.Atoi(id)
}
