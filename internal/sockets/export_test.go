package sockets

import "io/fs"

// INET6 is the address family of IPv6.
var INET6 = &inet6

// Chmod gives the file at path the mode, if it is the socket that was made.
func Chmod(path string, made *Socket, mode fs.FileMode) error {
	return access{mode: mode, chmod: true}.set(path, made)
}
