package sysio

import "os"

// Direct says that names are not copied to the heap.
const Direct = direct

// Refuse makes f do without openat2, as where that is refused.
func (f *Folder) Refuse(dir string) (err error) {
	f.root, err = os.OpenRoot(dir)
	return err
}

// Close makes the folder's descriptor one that is not open.
func (f *Folder) Close() {
	f.fd = -1
	if f.root != nil {
		f.root.Close()
	}
}
