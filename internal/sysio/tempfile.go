package sysio

import "os"

// TempFile opens a new file in os.TempDir for reading and writing. It has no name any more: what is written is gone when
// it is closed, or the process ends.
func TempFile() (*os.File, error) {
	f, err := os.CreateTemp("", "lwango-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		_ = f.Close()
		return nil, err
	}
	return f, nil
}
