package fastcgi_test

import (
	"bufio"
	"crypto/md5"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/fastcgi"
	"github.com/lwango/lwango/internal/test/wait"
)

var scripts = map[string]string{
	"hello.php": `<?php echo "Hello, world!";`,
	"server.php": `<?php header("Content-Type: text/plain"); ksort($_SERVER);
 foreach ($_SERVER as $k => $v) if (is_string($v)) echo "$k=$v\n";`,
	"md5.php": `<?php header("X-Length: " . $_SERVER["CONTENT_LENGTH"]);
echo md5(file_get_contents("php://input"));`,
	"form.php": `<?php echo $_POST["a"] ?? "none", " ",
isset($_FILES["f"]) ? md5_file($_FILES["f"]["tmp_name"]) : "no file";`,
	"echo.php": `<?php $in = fopen("php://input", "r"); while (!feof($in)) {
$s = fread($in, 65536); if ($s === "") break; echo $s; flush(); }`,
	"big.php": `<?php $n = (int)$_GET["n"]; $s = str_repeat("0123456789abcdef", 4096);
while ($n > 0) { echo $n < 65536 ? substr($s, 0, $n) : $s; $n -= 65536; }`,
	"status.php": `<?php http_response_code((int)$_GET["s"]); if (isset($_GET["b"])) echo "body";`,
	"sse.php": `<?php header("Content-Type: text/event-stream"); echo ":\n\n"; flush();
$f = $_GET["f"]; while (!file_exists($f)) usleep(5000); echo "data: 1\n\n";`,
	"stderr.php":  `<?php error_log("first\nforged line\x1b[31m"); echo "ok"; error_log("last");`,
	"fatal.php":   `<?php nothing();`,
	"sleep.php":   `<?php usleep((int)$_GET["ms"] * 1000); echo getmypid();`,
	"cookies.php": `<?php setcookie("a", "1"); setcookie("b", "2"); echo json_encode($_COOKIE);`,
	"early.php": `<?php header("HTTP/1.1 103 Early Hints");
header("Link: </a.css>; rel=preload"); echo "page";`,
	"types.php": `<?php header("Content-Type: a/b");
header("Content-Type: c/d", false); echo "ok";`,
	"to.php":        `<?php header("Location: /hello.php");`,
	"headers.php":   `<?php header("X-Big: " . str_repeat("x", (int)$_GET["n"])); echo "ok";`,
	"finish.php":    `<?php echo "done"; fastcgi_finish_request(); usleep(300000);`,
	"sub/index.php": `<?php echo "index of sub ", $_SERVER["SCRIPT_NAME"];`,
	"a.txt":         "a text",
}

// TestPHP: real PHP-FPM, over both kinds of sockets, with and without connections that are kept.
func TestPHP(t *testing.T) {
	t.Parallel()
	for _, network := range []string{"unix", "tcp"} {
		for _, keep := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, keep %v", network, keep), func(t *testing.T) {
				f := startFPM(t, network)
				testPHP(t, serveFiles(t, "/", []string{f.Address}, scripts,
					func(s *fastcgi.Settings) {
						s.KeepConn = keep
						s.ReadTimeout = 10 * time.Second
					}))
			})
		}
	}
}

func testPHP(t *testing.T, p *proxy) {
	check := func(what string, g got, status int, body string) {
		t.Helper()
		if g.err != nil || g.status != status || g.body != body {
			t.Errorf("%s: %d %.200q, %v; want %d %.200q; log %s", what, g.status, g.body, g.err,
				status, body, p.log)
		}
	}
	g := p.get("/hello.php")
	check("hello", g, 200, "Hello, world!")
	if g.header.Get("Content-Length") != "13" {
		t.Error("a short response has no length: ", g.header)
	}
	check("file", p.get("/a.txt"), 200, "a text")
	check("index", p.get("/sub/"), 200, "index of sub /sub/index.php")
	check("no index", p.get("/"), 404, p.get("/x").body)
	if g := p.get("/sub?x=1"); g.status != 301 || g.header.Get("Location") != "/sub/?x=1" {
		t.Error("folder: ", g.status, g.header)
	}
	if g := p.get("/missing.php"); g.status != 404 || strings.Contains(g.body, "File not found.") {
		t.Error("missing: ", g.status, g.body)
	}
	check("picture", p.get("/a.txt/x.php"), 404, p.get("/x").body)
	check("control", p.get("/hello.php/%0a/x"), 400, p.get("/%01").body)

	g = p.request("GET /server.php/pa%2Fth/x?a=1&b=%20", []string{"Cookie: a=1", "Cookie: b=2",
		"Proxy: evil", "X_Y: z"}, "")
	for _, want := range []string{
		"REQUEST_URI=/server.php/pa%2Fth/x?a=1&b=%20", "QUERY_STRING=a=1&b=%20",
		"SCRIPT_NAME=/server.php",
		"PATH_INFO=/pa/th/x", "SCRIPT_FILENAME=" + p.dir + "/server.php", "DOCUMENT_ROOT=" + p.dir,
		"HTTP_COOKIE=a=1; b=2",
		"HTTP_HOST=test.example", "REMOTE_ADDR=127.0.0.1", "SERVER_ADDR=127.0.0.1",
		"REQUEST_METHOD=GET",
		"SERVER_PORT=" + p.Addr[strings.LastIndexByte(p.Addr, ':')+1:], "CONTENT_LENGTH=0",
		"REQUEST_SCHEME=http",
		"SERVER_SOFTWARE=lwango", "SERVER_PROTOCOL=HTTP/1.1", "GATEWAY_INTERFACE=CGI/1.1",
	} {
		if !strings.Contains(g.body, want+"\n") {
			t.Errorf("no %q in %s", want, g.body)
		}
	}
	for _, absent := range []string{"HTTP_PROXY", "HTTP_X_Y", "HTTPS="} {
		if strings.Contains(g.body, absent) {
			t.Errorf("%s in %s", absent, g.body)
		}
	}

	for _, n := range []int{0, 1, 1000, 32760, 65535, 65536, 65537, 3 << 20} {
		body := strings.Repeat("x", n)
		sum := fmt.Sprintf("%x", md5.Sum([]byte(body)))
		check(fmt.Sprint("POST of ", n), p.request("POST /md5.php", nil, body), 200, sum)
		chunks := ""
		if n > 0 {
			chunks = fmt.Sprintf("%x\r\n%s\r\n", n, body)
		}
		g := p.request("PUT /md5.php", []string{"Transfer-Encoding: chunked"}, chunks+"0\r\n\r\n")
		check(fmt.Sprint("chunked PUT of ", n), g, 200, sum)
		if g.header.Get("X-Length") != fmt.Sprint(n) {
			t.Errorf("CONTENT_LENGTH %s of %d", g.header.Get("X-Length"), n)
		}
	}
	check("form", p.request("POST /form.php",
		[]string{"Content-Type: application/x-www-form-urlencoded"}, "a=b+c"), 200, "b c no file")

	for _, s := range []int{200, 201, 204, 304, 404, 500, 503} {
		want := "body"
		if s == 204 || s == 304 {
			want = ""
		}
		check(fmt.Sprint("status ", s), p.get(fmt.Sprintf("/status.php?b&s=%d", s)), s, want)
		check(fmt.Sprint("status without body ", s), p.get(fmt.Sprintf("/status.php?s=%d", s)), s,
			"")
	}
	check("HEAD", p.request("HEAD /hello.php", nil, ""), 200, "")
	if g := p.get("/early.php"); g.status != 200 || g.body != "page" || g.header.Get("Link") == "" {
		t.Error("a status of an interim response: ", g)
	}
	if g := p.get("/types.php"); g.body != "ok" || len(g.header.Values("Content-Type")) != 1 {
		t.Error("two types: ", g)
	}
	if g := p.get("/to.php"); g.status != 302 || g.header.Get("Location") != "/hello.php" {
		t.Error("Location: ", g.status, g.header)
	}
	if g := p.get("/cookies.php"); len(g.header.Values("Set-Cookie")) != 2 {
		t.Error("Set-Cookie: ", g.header)
	}
	check("fatal", p.get("/fatal.php"), 500, "")
	check("stderr", p.get("/stderr.php"), 200, "ok")
	if log := p.log.String(); !strings.Contains(log, "forged line") ||
		strings.Contains(log, "\nforged") ||
		strings.Contains(log, "\x1b") {
		t.Errorf("log: %q", log)
	}
	check("header of 40 KB", p.get("/headers.php?n=40000"), 200, "ok")
	if g := p.get("/headers.php?n=100000"); g.status != 502 {
		t.Error("header of 100 KB: ", g.status)
	}
	if g := p.get("/headers.php?n=1048576"); g.status != 502 {
		t.Error("header of 1 MiB: ", g.status)
	}
	if g := p.get("/big.php?n=5000000"); g.err != nil || len(g.body) != 5000000 ||
		g.header.Get("Content-Length") != "" {
		t.Error("5 MB: ", g.status, len(g.body), g.err, g.header)
	}
	check("finish", p.get("/finish.php"), 200, "done")
	check("after finish", p.get("/hello.php"), 200, "Hello, world!")

	body := strings.Repeat("0123456789abcdef", 20<<20/16)
	if g := p.request("PUT /echo.php", nil, body); g.err != nil || g.body != body {
		t.Errorf("20 MB echoed while it is read: %d, %d bytes, %v", g.status, len(g.body), g.err)
	}
}

// TestHeadOfAStream: the head and every event go out when PHP has sent them, even if no byte
// follows.
func TestHeadOfAStream(t *testing.T) {
	f := startFPM(t, "unix")
	p := serveFiles(t, "/", []string{f.Address}, scripts,
		func(s *fastcgi.Settings) { s.ReadTimeout = 10 * time.Second })
	c := p.Dial()
	mark := p.dir + "/mark"
	fmt.Fprintf(c, "GET /sse.php?f=%s HTTP/1.1\r\nHost: a\r\n\r\n", mark)
	r := bufio.NewReader(c)
	std, err := http.ReadResponse(r, nil)
	if err != nil || std.Header.Get("Content-Type") != "text/event-stream;charset=UTF-8" {
		t.Fatal(std, err)
	}
	write(t, p.dir, map[string]string{"mark": ""})
	if b, err := io.ReadAll(std.Body); string(b) != ":\n\ndata: 1\n\n" || err != nil {
		t.Errorf("%q, %v", b, err)
	}
}

// TestTinyPool: six requests at once for one worker with a backlog of one. At first the kernel
// refuses most of them.
func TestTinyPool(t *testing.T) {
	f := startFPM(t, "unix", "pm.max_children = 1", "listen.backlog = 1")
	p := serveFiles(t, "/", []string{f.Address}, scripts,
		func(s *fastcgi.Settings) { s.ReadTimeout = 10 * time.Second })
	var all sync.WaitGroup
	for range 6 {
		all.Go(func() {
			if g := p.get("/sleep.php?ms=50"); g.status != 200 || g.err != nil {
				t.Error(g.status, g.err)
			}
		})
	}
	all.Wait()
}

// TestSelfRequest: a script calls fastcgi_finish_request and then asks its own site. Its connection
// is kept though its process is busy, but the request gets another kept one.
func TestSelfRequest(t *testing.T) {
	f := startFPM(t, "unix")
	p := serveFiles(t, "/", []string{f.Address}, scripts, func(s *fastcgi.Settings) {
		s.KeepConn, s.IdleTimeout, s.ReadTimeout = true, 3*time.Second, 20*time.Second
	})
	out := filepath.Join(p.dir, "out")
	// Each waits for the other, so there are two connections.
	write(t, p.dir, map[string]string{"meet.php": `<?php touch("` + p.dir + `/met." . getmypid());
		for ($n = 0; $n < 4000 && count(glob("` + p.dir + `/met.*")) < 2; $n++) usleep(5000);`,
		"finish.php": `<?php echo "done"; fastcgi_finish_request();
		file_put_contents("` + out + `.new", file_get_contents("http://` + p.Addr + `/hello.php"));
		rename("` + out + `.new", "` + out + `");`})
	want := p.get("/hello.php").body
	done := make(chan got)
	for range 2 { // two connections are kept
		go func() { done <- p.get("/meet.php") }()
	}
	for range 2 {
		<-done
	}
	if g := p.get("/finish.php"); g.body != "done" {
		t.Error(g)
	}
	wait.Until(t, "its own site answers", func() bool {
		text, err := os.ReadFile(out)
		return err == nil && string(text) == want
	})
}
