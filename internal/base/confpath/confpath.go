// Package confpath reads what a configuration names: relative paths, the sockets of unix:
// addresses, files, users. Its functions may be called from any goroutine.
//
//	confpath.go  paths, and the sockets of addresses
//	read.go      files, of a bounded size
//	key.go       certificates with their keys, which may be encrypted
//	stamp.go     whether a file has changed
//	users.go     users and groups
package confpath

import (
	"errors"
	"fmt"
	"path/filepath"
	"strings"
)

// Join returns path, which begins in dir if it is relative.
func Join(dir, path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(dir, path)
}

// maxSocket is the room for a path in a sockaddr_un, less the NUL at its end (unix(7)).
const maxSocket = 107

// Socket returns the path of the socket that address, "unix:path", names; ok is false if address is
// of another kind. A relative path begins in dir. A path that begins with '@' is the name of an
// abstract socket, which is in no folder (unix(7)).
func Socket(dir, address string) (path string, ok bool, err error) {
	path, ok = strings.CutPrefix(address, "unix:")
	switch {
	case !ok:
		return "", false, nil
	case path == "":
		return "", true, errors.New("expected a path behind unix:")
	case path[0] != '@':
		path = Join(dir, path)
	}
	if len(path) > maxSocket {
		return "", true, fmt.Errorf("the path of a UNIX socket has at most %d bytes, %s has %d",
			maxSocket, path, len(path))
	}
	return path, true, nil
}
