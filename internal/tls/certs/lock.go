package certs

import (
	"context"
	"os"
	"syscall"
	"time"
)

// lockRetry is how often a task tries again to lock the folder.
const lockRetry = time.Second

// lockFolder waits until no other process orders certificates for the folder, and keeps others from
// it until done is called. At an upgrade the old process may still finish an order when the new one
// begins, and authorities limit how many certificates they issue. The lock ends with the process,
// however that ends.
func (t *task) lockFolder(ctx context.Context) (done func(), err error) {
	f, err := os.Open(t.config.Folder)
	if err != nil {
		return nil, err
	}
	for waits := false; ; waits = true {
		switch syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) {
		case syscall.EWOULDBLOCK, syscall.EINTR:
		default: // or the file system knows no locks, as some of networks do
			return func() { f.Close() }, nil
		}
		if !waits {
			t.log.Info("another process orders certificates, waiting for it", "folder", t.config.Folder)
		}
		timer := time.NewTimer(lockRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
			f.Close()
			return nil, ctx.Err()
		}
	}
}
