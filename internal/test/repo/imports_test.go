package repo_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/lwango/lwango"

// allowed names, for each package, what of the module its code may import: the arrows of
// ARCHITECTURE.md. Tests may import what they like. A folder that is not listed may not exist
// without a decision about its place.
var allowed = map[string][]string{
	"coro":                      {},
	"timeoutwheel":              {},
	"internal/invariants":       {},
	"internal/sysio":            {"internal/invariants", "internal/networks"},
	"internal/asynclog":         {},
	"internal/metrics":          {},
	"internal/ascii":            {},
	"internal/cachestore":       {"loop", "stream", "internal/invariants", "internal/networks", "internal/sysio"},
	"internal/cgi":              {"internal/ascii", "internal/glob", "internal/http1", "internal/names", "internal/sysio", "internal/template"},
	"internal/confine":          {},
	"internal/confpath":         {},
	"internal/fair":             {"internal/networks"},
	"internal/handshake":        {"loop", "internal/fair"},
	"internal/gateway":          {"conn", "loop", "stream", "handlers", "internal/around", "internal/cgi", "internal/http1", "internal/relay", "internal/upstream"},
	"internal/glob":             {},
	"internal/networks":         {},
	"internal/openfiles":        {"internal/networks", "internal/sysio"},
	"internal/relay":            {"conn", "stream", "loop", "handlers", "internal/around", "internal/ascii", "internal/http1", "internal/networks", "internal/placeholder", "internal/proxyproto", "internal/template", "internal/upstream"},
	"internal/around":           {"handlers", "loop", "internal/coding", "internal/metrics"},
	"internal/coding":           {"loop", "internal/ascii"},
	"internal/compression":      {"conn", "handlers", "internal/ascii", "internal/coding", "internal/http1"},
	"internal/upstream":         {"stream", "loop", "internal/confpath", "internal/crl", "internal/fair", "internal/handshake", "internal/http2client", "internal/metrics", "internal/networks", "internal/openfiles", "internal/sysio"},
	"internal/http1":            {"internal/ascii"},
	"internal/http2":            {"internal/ascii", "internal/http1"},
	"internal/rfc9111":          {"internal/ascii", "internal/http1"},
	"internal/http2client":      {"coro", "loop", "stream", "internal/http1", "internal/http2", "internal/sysio"},
	"internal/names":            {"internal/ascii"},
	"internal/route":            {"internal/ascii", "internal/http1"},
	"internal/proxyproto":       {},
	"internal/clienthello":      {},
	"internal/tunnel":           {"loop", "stream"},
	"internal/streams":          {"coro", "loop", "stream", "internal/accesslog", "internal/certs", "internal/clienthello", "internal/handshake", "internal/metrics", "internal/networks", "internal/proxyproto", "internal/settings", "internal/sockets", "internal/sysio", "internal/upstream", "internal/tunnel"},
	"internal/byteranges":       {"internal/http1"},
	"internal/mediatype":        {},
	"internal/placeholder":      {"conn", "internal/http1", "internal/template"},
	"internal/template":         {"internal/http1"},
	"internal/test/embedded":    {"", "internal/test/*"},
	"internal/test/server":      {"loop", "conn", "internal/http2", "internal/test/*"},
	"internal/test/rooms":       {"loop", "pubsub", "internal/test/*"},
	"internal/test/slots":       {"internal/fair"},
	"internal/test/*":           {"coro", "loop", "conn", "handlers", "internal/test/*"}, // for tests alone
	"loop":                      {"coro", "timeoutwheel", "internal/fair", "internal/sysio", "internal/invariants"},
	"stream":                    {"coro", "loop", "internal/invariants", "internal/openfiles", "internal/sysio"},
	"internal/httpclient":       {"loop", "stream", "internal/ascii", "internal/http1", "internal/http2client", "internal/upstream"},
	"client":                    {"conn", "loop", "stream", "internal/ascii", "internal/http1", "internal/httpclient", "internal/upstream"},
	"conn":                      {"coro", "loop", "stream", "internal/ascii", "internal/byteranges", "internal/handshake", "internal/http1", "internal/http2", "internal/mediatype", "internal/networks", "internal/openfiles", "internal/proxyproto", "internal/sysio", "internal/tags", "internal/invariants"},
	"pubsub":                    {"loop"},
	"pubsub/redis":              {"pubsub", "pubsub/internal/engine"},
	"pubsub/internal/engine":    {"pubsub"},
	"handlers":                  {"conn", "loop", "internal/ascii", "internal/http1", "internal/route", "internal/confpath"},
	"handlers/*":                {"conn", "stream", "loop", "coro", "handlers", "client", "internal/around", "internal/ascii", "internal/coding", "internal/confpath", "internal/fair", "internal/glob", "internal/http1", "internal/invariants", "internal/metrics", "internal/names", "internal/networks", "internal/placeholder", "internal/relay", "internal/rfc9111", "internal/sysio", "internal/template", "internal/upstream"},
	"handlers/cache":            {"conn", "loop", "handlers", "handlers/rules", "internal/around", "internal/ascii", "internal/byteranges", "internal/cachestore", "internal/coding", "internal/compression", "internal/http1", "internal/invariants", "internal/networks", "internal/placeholder", "internal/rfc9111", "internal/template"},
	"handlers/status":           {"conn", "loop", "handlers", "internal/around", "internal/metrics"},
	"handlers/mirror":           {"conn", "loop", "handlers", "internal/around", "internal/ascii", "internal/http1", "internal/metrics", "internal/tags"},
	"handlers/https":            {"conn", "handlers", "handlers/redirect"},
	"handlers/compress":         {"handlers", "internal/compression"},
	"handlers/websocket":        {"client", "conn", "loop", "pubsub", "stream", "internal/ascii", "internal/handshake", "internal/http1", "internal/invariants", "internal/upstream"},
	"handlers/sse":              {"conn", "loop", "pubsub"},
	"handlers/errorpages":       {"conn", "handlers", "handlers/servefiles", "internal/ascii", "internal/confpath", "internal/http1"},
	"handlers/proxy":            {"conn", "stream", "loop", "handlers", "handlers/servefiles", "internal/around", "internal/ascii", "internal/http1", "internal/httpclient", "internal/placeholder", "internal/relay", "internal/template", "internal/upstream", "internal/tunnel"},
	"handlers/uwsgi":            {"conn", "handlers", "handlers/servefiles", "internal/cgi", "internal/gateway", "internal/upstream"},
	"handlers/scgi":             {"conn", "handlers", "handlers/servefiles", "internal/cgi", "internal/gateway", "internal/upstream"},
	"handlers/servefiles":       {"conn", "coro", "loop", "stream", "handlers", "internal/around", "internal/ascii", "internal/byteranges", "internal/mediatype", "internal/coding", "internal/compression", "internal/confpath", "internal/fair", "internal/http1", "internal/names", "internal/openfiles", "internal/sysio"},
	"fastcgi":                   {"conn", "loop", "handlers", "handlers/servefiles", "fastcgi/internal/wire", "internal/around", "internal/cgi", "internal/gateway", "internal/http1", "internal/names", "internal/relay", "internal/sysio", "internal/upstream"},
	"fastcgi/internal/wire":     {"internal/cgi"},
	"fastcgi/internal/fcgitest": {},
	"internal/server":           {"conn", "coro", "loop", "pubsub", "stream", "handlers", "handlers/auth", "handlers/cache", "internal/accesslog", "internal/asynclog", "internal/certs", "internal/config", "internal/confine", "internal/confpath", "internal/metrics", "internal/openfiles", "internal/settings", "internal/sockets", "internal/streams", "internal/sysio"},
	"internal/config":           {"conn", "coro", "loop", "pubsub", "stream", "handlers", "handlers/*", "fastcgi", "internal/accesslog", "internal/around", "internal/certs", "internal/coding", "internal/compression", "internal/confine", "internal/confpath", "internal/http1", "internal/metrics", "internal/networks", "internal/settings", "internal/sockets", "internal/streams", "internal/sysio", "internal/tags"},
	"internal/settings":         {"internal/ascii", "internal/confpath", "internal/tags"},
	"internal/tags":             {},
	"internal/crl":              {"internal/confpath"},
	"internal/certs":            {"internal/ascii", "internal/confpath", "internal/crl", "internal/metrics", "internal/settings", "internal/sysio"},
	"internal/sockets":          {"loop", "internal/confpath", "internal/settings"},
	"internal/accesslog":        {"conn", "loop", "internal/confpath", "internal/settings", "internal/template"},
	"internal/reference":        {"handlers", "internal/config", "internal/tags", "internal/server"},
	"lwangotest":                {"conn", "internal/test/*"},
	"":                          {"client", "conn", "coro", "handlers", "handlers/cache", "loop", "pubsub", "stream", "internal/config", "internal/server", "internal/asynclog"},
	"internal/top":              {"internal/metrics"},
	"internal/command":          {"", "pubsub/redis", "internal/server", "internal/top"},
	"cmd/*":                     {"internal/command"},
	"samples/*":                 {"", "client", "conn", "stream", "loop", "coro", "pubsub"},
	"samples/upload":            {"", "conn", "loop", "pubsub", "handlers/sse"},
}

// only names the third-party imports and standard packages that are some package's alone, or
// forbidden to it.
var only = map[string][]string{
	"github.com/redis/go-redis/v9":                    {"pubsub/redis", "internal/test/broker"},
	"github.com/redis/go-redis/v9/logging":            {"pubsub/redis", "internal/test/broker"},
	"github.com/redis/go-redis/v9/maintnotifications": {"pubsub/redis"},
	"github.com/chromedp/chromedp":                    {"internal/test/browser"},
	"golang.org/x/crypto/bcrypt":                      {"handlers/auth"},
	"golang.org/x/crypto/acme":                        {"internal/certs"},
	"github.com/andybalholm/brotli":                   {"internal/coding"},
	"github.com/klauspost/compress/flate":             {"internal/coding", "handlers/websocket"},
	"github.com/klauspost/compress/zstd":              {"internal/coding"},
	"github.com/BurntSushi/toml":                      {"internal/settings"},
	"github.com/landlock-lsm/go-landlock/landlock":    {"internal/confine"},

	"github.com/landlock-lsm/go-landlock/landlock/syscall": {"internal/confine"},

	"golang.org/x/sys/unix": {"internal/cachestore", "loop", "stream", "conn", "handlers/*", "internal/sysio", "fastcgi/internal/fcgitest", "internal/server", "internal/top", "internal/accesslog", "internal/config", "internal/sockets", "internal/test/*", "lwangotest", "samples/tail", "samples/upload", "internal/confine"},
	"net/http":              {"", "lwangotest", "conn", "handlers", "handlers/*", "fastcgi", "internal/compression", "internal/gateway", "internal/relay", "internal/server", "internal/certs", "internal/top", "internal/test/*", "samples/fanout"},
}

func TestImportsPointOneWay(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(path, "go.mod")) // a module of its own
			if path != "." && (err == nil || strings.HasPrefix(d.Name(), ".")) || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		seen++
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := filepath.ToSlash(filepath.Dir(path))
		if dir == "." {
			dir = ""
		}
		rule, ok := lookup(dir)
		if !ok {
			t.Errorf("%s: the folder has no place in the architecture; decide it here and in ARCHITECTURE.md", path)
			return nil
		}
		for _, spec := range file.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if inside, ok := strings.CutPrefix(name+"/", module+"/"); ok {
				if inside = strings.TrimSuffix(inside, "/"); !matches(rule, inside) {
					t.Errorf("%s imports %s", path, name)
				}
				continue
			}
			if users, ok := only[name]; ok && !matches(users, dir) {
				t.Errorf("%s imports %s", path, name)
			}
			std := !strings.Contains(strings.Split(name, "/")[0], ".")
			if !std && only[name] == nil {
				t.Errorf("%s imports %s, which no package may", path, name)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen < 20 {
		t.Fatalf("%d files seen: the walk is wrong", seen)
	}
}

func lookup(dir string) ([]string, bool) {
	if rule, ok := allowed[dir]; ok {
		return rule, true
	}
	rule, ok := allowed[pattern(dir)]
	return rule, ok
}

// pattern is the entry that stands for all folders below one.
func pattern(dir string) string {
	if i := strings.LastIndexByte(dir, '/'); i >= 0 {
		return dir[:i] + "/*"
	}
	return dir
}

func matches(list []string, dir string) bool {
	for _, entry := range list {
		if entry == dir || strings.HasSuffix(entry, "/*") && entry == pattern(dir) {
			return true
		}
	}
	return false
}
