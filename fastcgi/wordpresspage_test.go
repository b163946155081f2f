package fastcgi_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"github.com/lwango/lwango/internal/test/ci"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/loopback"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/wait"
)

// pageBlock is a block of docs/use/wordpress.md: commands, what they print, or a file.
type pageBlock struct{ language, text, file string }

// pageBlocks returns the blocks of docs/use/wordpress.md. A file's path begins the paragraph before
// it.
func pageBlocks(t *testing.T) (all []pageBlock) {
	t.Helper()
	text := must.Get(os.ReadFile("../docs/use/wordpress.md"))(t)
	fences := regexp.MustCompile("(?ms)^```(\\w+)\n(.*?)^```$")
	path := regexp.MustCompile("^`(/[^`]+)`")
	end := 0
	for _, m := range fences.FindAllStringSubmatchIndex(string(text), -1) {
		before := strings.Split(strings.TrimSpace(string(text[end:m[0]])), "\n\n")
		block := pageBlock{language: string(text[m[2]:m[3]]), text: string(text[m[4]:m[5]])}
		if m := path.FindStringSubmatch(before[len(before)-1]); m != nil {
			block.file = m[1]
		}
		all = append(all, block)
		end = m[1]
	}
	return all
}

// freePort returns a port of host that nothing listens on.
func freePort(t *testing.T, host string) string {
	t.Helper()
	ln := must.Get(net.Listen("tcp", host+":0"))(t)
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	return port
}

// TestWordPressPage follows docs/use/wordpress.md: the blocks that are not for the machine's root,
// with a tree of WordPress's shape; and all of it, in a machine.
func TestWordPressPage(t *testing.T) {
	ci.Only(t, "follows a page that installs WordPress")
	findFPM(t)
	for _, tool := range []string{"openssl", "curl", "go"} {
		must.Get(exec.LookPath(tool))(t)
	}
	t.Run("shape", followShape)
	t.Run("machine", followInMachine)
}

// followShape runs what a user without rights can: it makes the site's file, checks it, starts the
// program with it, and asks. Paths and ports are the test's.
func followShape(t *testing.T) {
	bin := t.TempDir()
	build := exec.Command("go", "build", "-o", bin+"/lwango", "../cmd/lwango")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	root := t.TempDir()
	write(t, root, map[string]string{
		"log/x": "", "conf/conf.d/x": "", "www/index.html": "none",
		"content/uploads/x.php": secret, "content/index.php": "<?php",
		"wordpress/index.php": calls, "wordpress/wp-config.php": secret,
	})
	f := newFPM(t, "unix")
	f.start()
	host := loopback.Host()
	plain, secure := freePort(t, host), freePort(t, host)
	// What the page says, and what stands in its place here.
	places := strings.NewReplacer(
		"/etc/lwango", root+"/conf",
		"/usr/share/wordpress", root+"/wordpress",
		"/var/lib/wordpress/wp-content", root+"/content",
		"/var/log/lwango", root+"/log",
		"/run/lwango", root,
		"/var/www/html", root+"/www",
		"unix:/run/php/php-fpm.sock", f.Address,
		`"*:80"`, `"`+host+`:`+plain+`"`,
		`"*:443"`, `"`+host+`:`+secure+`"`)
	deb := must.Read(t, "../contrib/deb/lwango.conf")
	write(t, root, map[string]string{
		"conf/lwango.conf": places.Replace(deb),
		// The name and its ports lead to the server of the test.
		".curlrc": fmt.Sprintf("connect-to = \"blog.example.org:80:%s:%s\"\n"+
			"connect-to = \"blog.example.org:443:%s:%s\"\nnoproxy = \"*\"\n", host, plain, host, secure),
	})
	shell := func(script string) string {
		t.Helper()
		cmd := exec.Command("sh", "-euc", script)
		cmd.Dir = root
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"), "HOME="+root,
			"CURL_HOME="+root)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s\n%v: %s", script, err, out)
		}
		return string(out)
	}
	said, ran := "", map[string]int{}
	for _, b := range pageBlocks(t) {
		text := places.Replace(b.text)
		ran[b.language]++
		switch b.language {
		case "toml":
			write(t, root, map[string]string{"conf/conf.d/blog.conf": text})
		case "sh":
			if strings.HasPrefix(text, "ask()") {
				startLwango(t, bin, root, host+":"+plain, host+":"+secure)
			}
			said = shell(text)
		case "text":
			if said != text {
				t.Errorf("the page's commands print\n%s, not\n%s", said, text)
			}
		case "console", "php", "ini", "nft": // for root: followInMachine does them
		default:
			t.Errorf("a block of %q: the test cannot follow it", b.language)
		}
	}
	if ran["sh"] != 3 || ran["toml"] != 1 || ran["text"] != 1 {
		t.Errorf("blocks of the page: %v", ran)
	}

	const get = "curl -s --cacert conf/blog.pem "
	if head := shell(get + "-I http://blog.example.org/a?b"); !strings.Contains(strings.ToLower(head),
		"location: https://blog.example.org:"+secure+"/a?b\r\n") {
		t.Errorf("redirect from http: %s", head)
	}
	for path, text := range map[string]string{"/": "ran /index.php - ",
		"/hello-world/?x=1": "ran /index.php - x=1"} {
		if body := shell(get + "'https://blog.example.org" + path + "'"); !strings.Contains(body, text) {
			t.Errorf("%s: no %q in %.2000s", path, text, body)
		}
	}
	if body := shell(get + "https://blog.example.org/wp-content/uploads/x.php"); strings.Contains(
		body, "secret") {
		t.Errorf("a script among the uploads: %s", body)
	}
}

// startLwango starts the program with the page's configuration, until the test ends.
func startLwango(t *testing.T, bin, root string, addresses ...string) {
	t.Helper()
	var log logtext.Buffer
	cmd := exec.Command(bin+"/lwango", "-c", root+"/conf/lwango.conf")
	cmd.Stdout, cmd.Stderr = &log, &log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	must.Do(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		if err := cmd.Wait(); err != nil {
			t.Errorf("lwango ends with %v", err)
		}
		logtext.NoPanic(t, log.String())
		if t.Failed() {
			t.Logf("lwango: %.5000s", log.String())
		}
	})
	for _, address := range addresses {
		wait.Until(t, "lwango listens", func() bool {
			c, err := net.Dial("tcp", address)
			if err == nil {
				c.Close()
			}
			return err == nil
		})
	}
}
