package machine_test

import (
	"crypto/tls"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/acme"
	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// secured waits until a server at an address has a certificate of an authority for a name.
func secured(t *testing.T, ca *acme.Server, address, name string) {
	t.Helper()
	wait.Until(t, "a certificate for "+name, func() bool {
		c, err := tls.Dial("tcp", address, &tls.Config{ServerName: name, RootCAs: ca.CA.Pool})
		if err == nil {
			c.Close()
		}
		return err == nil
	})
}

// TestACMEConfined: certificates are obtained by a server that has given up root, the rest of the
// files and system calls.
func TestACMEConfined(t *testing.T) {
	ci.Root(t)
	ca := acme.New(t)
	t.Setenv("SSL_CERT_FILE", ca.CA.File) // outside, and for root alone
	j := newJail(t)
	j.write("etc/lwango.conf", fmt.Sprintf(`
[confine]
user = "65534"
group = "65534"
seccomp = true
[tls.acme]
domains = "a.test"
directory = %q
cache = "../state"
[[listener]]
address = "127.0.0.1:0"
tls = { acme = true }
`, strings.Replace(ca.URL, "127.0.0.1", "localhost", 1)))
	ca.Verify("")
	address := j.start(1)[0]
	ca.Verify(address)
	secured(t, ca, address, "a.test")
	if strings.Contains(j.logs.String(), "a reload would be refused") {
		t.Error("a reload would be refused")
	}
	info, err := os.Stat(j.in("state"))
	if err != nil || info.Mode().Perm() != 0o700 || info.Sys().(*syscall.Stat_t).Uid != another {
		t.Errorf("the folder: %v, %v", info, err)
	}
	j.signal(syscall.SIGHUP)
	j.says("msg=reloaded", 1)
	secured(t, ca, address, "a.test")
	if n := ca.Asked("newOrder"); n != 1 {
		t.Errorf("%d orders for a server", n)
	}
}

// TestACMEUpgrade: a new process takes over what the old one has obtained, and the one that serves
// obtains what comes later.
func TestACMEUpgrade(t *testing.T) {
	ca := acme.New(t)
	t.Setenv("SSL_CERT_FILE", ca.CA.File)
	j := &jail{t: t, dir: t.TempDir()}
	must.Do(t, os.Mkdir(j.in("etc"), 0o755))
	text := fmt.Sprintf(`
pid_file = "../pid"
[tls]
acme = { domains = "a.test", directory = %q }
[[listener]]
address = "127.0.0.1:0"
tls = { acme = true }
`, ca.URL)
	j.write("etc/lwango.conf", text)
	before := ca.Asked("newOrder")
	ca.Verify("")
	address := j.start(1)[0]
	ca.Verify(address)
	secured(t, ca, address, "a.test")
	kept := must.Get(tls.Dial("tcp", address, &tls.Config{ServerName: "a.test", RootCAs: ca.CA.Pool}))(
		t)
	defer kept.Close() // keeps the old process
	must.Get(kept.Write([]byte("GET / HTTP/1.1\r\nHost: a.test\r\n\r\n")))(t)
	must.Get(kept.Read(make([]byte, 1)))(t)
	j.signal(syscall.SIGUSR2)
	j.says("msg=\"replaced by a new process\"", 1)
	process := must.Get(os.FindProcess(numberIn(t, j.in("pid"))))(t)
	defer process.Kill() // if it is still there
	secured(t, ca, address, "a.test")
	if n := ca.Asked("newOrder") - before; n != 1 {
		t.Errorf("%d orders, want one", n)
	}
	j.write("etc/lwango.conf", strings.Replace(text, `"a.test"`, `["a.test", "b.test"]`, 1))
	must.Do(t, process.Signal(syscall.SIGHUP))
	secured(t, ca, address, "b.test")
	if n := ca.Asked("newOrder") - before; n != 2 {
		t.Errorf("%d orders, want two", n)
	}
	must.Do(t, process.Signal(syscall.SIGTERM))
	wait.Until(t, "the end", func() bool {
		_, err := os.Stat(j.in("pid"))
		return os.IsNotExist(err)
	})
}

// numberIn returns what stands in a file.
func numberIn(t *testing.T, path string) (n int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err == nil {
		_, err = fmt.Sscan(string(text), &n)
	}
	if err != nil {
		t.Fatal(err)
	}
	return n
}
