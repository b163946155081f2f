package cache_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// onDisk is a server with a cache on disk, of long pages whose text is the target and, over and
// over, the number of the request.
type onDisk struct {
	*cached
	n atomic.Int32
}

func startOnDisk(t *testing.T, folder string) *onDisk {
	t.Helper()
	d := new(onDisk)
	store := must.Get(cache.Open(cache.Options{Memory: 4 << 20, Folder: folder, Disk: 64 << 20}))(t)
	t.Cleanup(store.Close)
	m := must.Get(cache.New(store, cache.Settings{}, handlers.Env{}))(t)
	d.cached = &cached{store: store}
	d.Server = serveAll(t, m(func(req *conn.Request, w *conn.Response) int {
		fields(w, "Cache-Control: max-age=1000")
		w.SetBody([]byte(longPage(req.Target(), d.n.Add(1))))
		return 200
	}))
	return d
}

func longPage(target string, n int32) string {
	return target + strings.Repeat(fmt.Sprintf(" %07d", n), 20_000)
}

// settle waits until there are so many files.
func (d *onDisk) settle(t *testing.T, files int64) {
	t.Helper()
	wait.Until(t, fmt.Sprint(files, " files"), func() bool {
		n := d.stats()
		return n.DiskObjects == files && n.Filling == 0
	})
}

// ask asks for a target, and reports whether the answer, which has to be whole, is a hit.
func (d *onDisk) ask(t *testing.T, target string) (hit bool) {
	t.Helper()
	a, _ := get(t, d.cached, target)
	var n int32
	_, _ = fmt.Sscanf(strings.TrimPrefix(a.Text, target), " %d", &n)
	if a.StatusCode != 200 || a.Text != longPage(target, n) {
		t.Errorf("%s: %d, %d bytes", target, a.StatusCode, len(a.Text))
	}
	return strings.Contains(a.Header.Get("Cache-Status"), "; hit")
}

// TestFolderRemoved: the folder is removed while the server runs. All that asks gets whole answers,
// and new ones are kept in a new folder.
func TestFolderRemoved(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "kept")
	d := startOnDisk(t, folder)
	for _, target := range []string{"/a", "/b"} {
		d.ask(t, target)
	}
	d.settle(t, 2)
	if !d.ask(t, "/a") {
		t.Error("nothing is kept")
	}
	must.Do(t, os.RemoveAll(folder))
	for _, target := range []string{"/a", "/b", "/c"} {
		d.ask(t, target) // of what is open, the file is still there
	}
	next := 0
	wait.Until(t, "new answers are kept", func() bool {
		next++
		target := fmt.Sprint("/new", next)
		d.ask(t, target)
		wait.Until(t, "the end of the filling", func() bool { return d.stats().Filling == 0 })
		return d.ask(t, target)
	})
	if names := must.Get(filepath.Glob(filepath.Join(folder, "??", "*")))(t); len(names) == 0 {
		t.Error("there are no files")
	}
}

// TestTwoProcesses: of two with one folder the first one has it, and the other one serves without.
// When the first one ends, the other one takes over what is there.
func TestTwoProcesses(t *testing.T) {
	folder := t.TempDir()
	one, two := startOnDisk(t, folder), startOnDisk(t, folder)
	one.ask(t, "/a")
	one.settle(t, 1)
	for range 2 {
		two.ask(t, "/b")
	}
	if n := two.stats(); n.DiskObjects > 0 || n.MemoryObjects != 1 {
		t.Errorf("the second process has %+v", n)
	}
	if !two.ask(t, "/b") || !one.ask(t, "/a") {
		t.Error("they do not keep what they have")
	}
	one.store.Close()
	wait.Until(t, "the second process has the folder", func() bool {
		return two.stats().DiskObjects == 1
	})
	if !two.ask(t, "/a") || !two.ask(t, "/b") || two.n.Load() != 1 {
		t.Errorf("%d requests to the second handler", two.n.Load())
	}
	one.ask(t, "/a")
}

// TestOtherSize: a reload with less room evicts at once, and with more keeps what is there.
func TestOtherSize(t *testing.T) {
	folder := t.TempDir()
	d := startOnDisk(t, folder)
	for i := range 40 {
		d.ask(t, fmt.Sprint("/", i))
	}
	d.settle(t, 40)
	for _, tt := range []struct {
		disk int64
		want int64 // files, at most
	}{{128 << 20, 40}, {2 << 20, 12}, {64 << 20, 12}, {0, 0}} {
		o := cache.Options{Memory: 4 << 20, Folder: folder, Disk: tt.disk}
		must.Do(t, d.store.Configure(o))
		n := d.stats()
		if n.DiskObjects > tt.want || n.DiskObjects < tt.want-3 || n.DiskBytes > tt.disk {
			t.Errorf("with %d bytes: %+v", tt.disk, n)
		}
		wait.Until(t, "the files are removed", func() bool {
			return int64(len(must.Get(filepath.Glob(filepath.Join(folder, "??", "*")))(t))) == n.DiskObjects
		})
		d.ask(t, "/39")
	}
}

// mount mounts a file system of its own that has 16 MiB.
func mount(t *testing.T) (folder string) {
	t.Helper()
	ci.Root(t)
	for _, program := range []string{"mkfs.ext4", "fsfreeze", "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			ci.Lacks(t, program)
		}
	}
	image := filepath.Join(t.TempDir(), "image")
	must.Do(t, os.WriteFile(image, nil, 0o600))
	must.Do(t, os.Truncate(image, 16<<20))
	folder = t.TempDir()
	for _, command := range [][]string{
		{"mkfs.ext4", "-q", "-E", "lazy_itable_init=0", image}, {"mount", "-o", "loop", image, folder}} {
		if out, err := exec.Command(command[0], command[1:]...).CombinedOutput(); err != nil {
			ci.Lacks(t, fmt.Sprintf("a loop device: %v: %v, %s", command, err, out))
		}
	}
	t.Cleanup(func() { _ = syscall.Unmount(folder, syscall.MNT_DETACH) })
	must.Do(t, os.RemoveAll(filepath.Join(folder, "lost+found")))
	return folder
}

// TestFullDisk: without room on the disk all answers are whole, and with room they are kept again.
func TestFullDisk(t *testing.T) {
	folder := mount(t)
	d := startOnDisk(t, folder)
	d.ask(t, "/a")
	d.settle(t, 1)
	filler := must.Get(os.Create(filepath.Join(folder, "new", "filler")))(t)
	defer filler.Close()
	for {
		if _, err := filler.Write(make([]byte, 64<<10)); err != nil {
			break
		}
	}
	for i := range 20 {
		d.ask(t, fmt.Sprint("/full", i))
	}
	wait.Until(t, "the end of all fills", func() bool { return d.stats().Filling == 0 })
	if n := d.stats(); n.Failed == 0 || n.DiskObjects > 2 {
		t.Errorf("%+v", n)
	}
	if !d.ask(t, "/a") {
		t.Error("what was kept is gone")
	}
	must.Do(t, os.Remove(filler.Name()))
	filler.Close()
	before := d.stats().DiskObjects
	d.ask(t, "/room")
	d.settle(t, before+1)
	if !d.ask(t, "/room") {
		t.Error("with room it is not kept")
	}
}

// TestFrozenDisk: while all writes to the disk hang, the one loop serves on: answers pass by, what
// is open is sent, and a POST takes effect.
func TestFrozenDisk(t *testing.T) {
	folder := mount(t)
	d := startOnDisk(t, folder)
	d.ask(t, "/a")
	d.settle(t, 1)
	d.ask(t, "/a")
	must.Do(t, exec.Command("fsfreeze", "-f", folder).Run())
	thaw := func() { _ = exec.Command("fsfreeze", "-u", folder).Run() }
	defer thaw()
	began := time.Now()
	for i := range 20 {
		d.ask(t, fmt.Sprint("/frozen", i))
		if i > 10 {
			continue
		}
		if !d.ask(t, "/a") {
			t.Error("what is kept is not sent")
		}
	}
	d.Request("POST /a", nil, "")
	if d.ask(t, "/a") {
		t.Error("what a POST has changed is sent")
	}
	if took := time.Since(began); took > wait.Patience {
		t.Errorf("it took %v", took)
	}
	thaw()
	wait.Until(t, "the end of all fills", func() bool { return d.stats().Filling == 0 })
	next := 0
	wait.Until(t, "answers are kept again", func() bool {
		next++
		target := fmt.Sprint("/thawed", next)
		d.ask(t, target)
		time.Sleep(10 * time.Millisecond)
		return d.ask(t, target)
	})
}
