package confpath

import "syscall"

// Stamp changes when a file does.
type Stamp struct {
	inode             uint64
	size              int64
	modified, changed syscall.Timespec
}

// StampOf returns the stamp of a file, which is the zero Stamp if it is missing: reading it tells
// why.
func StampOf(path string) (s Stamp) {
	var st syscall.Stat_t
	if syscall.Stat(path, &st) == nil {
		s = Stamp{st.Ino, st.Size, st.Mtim, st.Ctim}
	}
	return s
}
