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
	"coro":                          {},
	"timeoutwheel":                  {},
	"internal/base/invariants":      {},
	"internal/base/sysio":           {"internal/base/invariants", "internal/base/networks"},
	"internal/base/asynclog":        {},
	"internal/base/metrics":         {},
	"internal/base/ascii":           {},
	"internal/content/cachestore":   {"loop", "stream", "internal/base/invariants", "internal/base/networks", "internal/base/sysio"},
	"internal/wire/cgi":             {"internal/base/ascii", "internal/base/glob", "internal/wire/http1", "internal/base/names", "internal/base/sysio", "internal/wire/template"},
	"internal/process/confine":      {},
	"internal/base/confpath":        {},
	"internal/base/fair":            {"internal/base/networks"},
	"internal/tls/handshake":        {"loop", "internal/base/fair"},
	"internal/modules/gateway":      {"conn", "loop", "stream", "handlers", "internal/modules/around", "internal/wire/cgi", "internal/wire/http1", "internal/modules/relay", "internal/upstream"},
	"internal/base/glob":            {},
	"internal/base/networks":        {},
	"internal/base/openfiles":       {"internal/base/networks", "internal/base/sysio"},
	"internal/modules/relay":        {"conn", "stream", "loop", "handlers", "internal/modules/around", "internal/base/ascii", "internal/wire/http1", "internal/base/networks", "internal/modules/placeholder", "internal/wire/proxyproto", "internal/wire/template", "internal/upstream"},
	"internal/modules/around":       {"handlers", "loop", "internal/content/coding", "internal/base/metrics"},
	"internal/content/coding":       {"loop", "internal/base/ascii"},
	"internal/modules/compression":  {"conn", "handlers", "internal/base/ascii", "internal/content/coding", "internal/wire/http1"},
	"internal/upstream":             {"stream", "loop", "internal/base/confpath", "internal/tls/crl", "internal/base/fair", "internal/tls/handshake", "internal/upstream/http2client", "internal/base/metrics", "internal/base/networks", "internal/base/openfiles", "internal/base/sysio"},
	"internal/wire/http1":           {"internal/base/ascii"},
	"internal/wire/http2":           {"internal/base/ascii", "internal/wire/http1"},
	"internal/wire/rfc9111":         {"internal/base/ascii", "internal/wire/http1"},
	"internal/upstream/http2client": {"coro", "loop", "stream", "internal/wire/http1", "internal/wire/http2", "internal/base/sysio"},
	"internal/base/names":           {"internal/base/ascii"},
	"internal/wire/route":           {"internal/base/ascii", "internal/wire/http1"},
	"internal/wire/proxyproto":      {},
	"internal/wire/clienthello":     {},
	"internal/upstream/tunnel":      {"loop", "stream"},
	"internal/process/streams":      {"coro", "loop", "stream", "internal/process/accesslog", "internal/tls/certs", "internal/wire/clienthello", "internal/tls/handshake", "internal/base/metrics", "internal/base/networks", "internal/wire/proxyproto", "internal/base/settings", "internal/process/sockets", "internal/base/sysio", "internal/upstream", "internal/upstream/tunnel"},
	"internal/wire/byteranges":      {"internal/wire/http1"},
	"internal/wire/mediatype":       {},
	"internal/modules/placeholder":  {"conn", "internal/wire/http1", "internal/wire/template"},
	"internal/wire/template":        {"internal/wire/http1"},
	"internal/test/embedded":        {"", "internal/test/*"},
	"internal/test/server":          {"loop", "conn", "internal/wire/http2", "internal/test/*"},
	"internal/test/rooms":           {"loop", "pubsub", "internal/test/*"},
	"internal/test/slots":           {"internal/base/fair"},
	"internal/test/*":               {"coro", "loop", "conn", "handlers", "internal/test/*"}, // for tests alone
	"loop":                          {"coro", "timeoutwheel", "internal/base/fair", "internal/base/sysio", "internal/base/invariants"},
	"stream":                        {"coro", "loop", "internal/base/invariants", "internal/base/openfiles", "internal/base/sysio"},
	"internal/upstream/httpclient":  {"loop", "stream", "internal/base/ascii", "internal/wire/http1", "internal/upstream/http2client", "internal/upstream"},
	"client":                        {"conn", "loop", "stream", "internal/base/ascii", "internal/wire/http1", "internal/upstream/httpclient", "internal/upstream"},
	"conn":                          {"coro", "loop", "stream", "internal/base/ascii", "internal/wire/byteranges", "internal/tls/handshake", "internal/wire/http1", "internal/wire/http2", "internal/wire/mediatype", "internal/base/networks", "internal/base/openfiles", "internal/wire/proxyproto", "internal/base/sysio", "internal/base/tags", "internal/base/invariants"},
	"pubsub":                        {"loop"},
	"pubsub/redis":                  {"pubsub", "pubsub/internal/engine"},
	"pubsub/internal/engine":        {"pubsub"},
	"handlers":                      {"conn", "loop", "internal/base/ascii", "internal/wire/http1", "internal/wire/route", "internal/base/confpath"},
	"handlers/*":                    {"conn", "stream", "loop", "coro", "handlers", "client", "internal/modules/around", "internal/base/ascii", "internal/content/coding", "internal/base/confpath", "internal/base/fair", "internal/base/glob", "internal/wire/http1", "internal/base/invariants", "internal/base/metrics", "internal/base/names", "internal/base/networks", "internal/modules/placeholder", "internal/modules/relay", "internal/wire/rfc9111", "internal/base/sysio", "internal/wire/template", "internal/upstream"},
	"handlers/cache":                {"conn", "loop", "handlers", "handlers/rules", "internal/modules/around", "internal/base/ascii", "internal/wire/byteranges", "internal/content/cachestore", "internal/content/coding", "internal/modules/compression", "internal/wire/http1", "internal/base/invariants", "internal/base/networks", "internal/modules/placeholder", "internal/wire/rfc9111", "internal/wire/template"},
	"handlers/status":               {"conn", "loop", "handlers", "internal/modules/around", "internal/base/metrics"},
	"handlers/mirror":               {"conn", "loop", "handlers", "internal/modules/around", "internal/base/ascii", "internal/wire/http1", "internal/base/metrics", "internal/base/tags"},
	"handlers/https":                {"conn", "handlers", "handlers/redirect"},
	"handlers/compress":             {"handlers", "internal/modules/compression"},
	"handlers/websocket":            {"client", "conn", "loop", "pubsub", "stream", "internal/base/ascii", "internal/tls/handshake", "internal/wire/http1", "internal/base/invariants", "internal/upstream"},
	"handlers/sse":                  {"conn", "loop", "pubsub"},
	"handlers/errorpages":           {"conn", "handlers", "handlers/servefiles", "internal/base/ascii", "internal/base/confpath", "internal/wire/http1"},
	"handlers/proxy":                {"conn", "stream", "loop", "handlers", "handlers/servefiles", "internal/modules/around", "internal/base/ascii", "internal/wire/http1", "internal/upstream/httpclient", "internal/modules/placeholder", "internal/modules/relay", "internal/wire/template", "internal/upstream", "internal/upstream/tunnel"},
	"handlers/uwsgi":                {"conn", "handlers", "handlers/servefiles", "internal/wire/cgi", "internal/modules/gateway", "internal/upstream"},
	"handlers/scgi":                 {"conn", "handlers", "handlers/servefiles", "internal/wire/cgi", "internal/modules/gateway", "internal/upstream"},
	"handlers/servefiles":           {"conn", "coro", "loop", "stream", "handlers", "internal/modules/around", "internal/base/ascii", "internal/wire/byteranges", "internal/wire/mediatype", "internal/content/coding", "internal/modules/compression", "internal/base/confpath", "internal/base/fair", "internal/wire/http1", "internal/base/names", "internal/base/openfiles", "internal/base/sysio"},
	"fastcgi":                       {"conn", "loop", "handlers", "handlers/servefiles", "fastcgi/internal/wire", "internal/modules/around", "internal/wire/cgi", "internal/modules/gateway", "internal/wire/http1", "internal/base/names", "internal/modules/relay", "internal/base/sysio", "internal/upstream"},
	"fastcgi/internal/wire":         {"internal/wire/cgi"},
	"fastcgi/internal/fcgitest":     {},
	"internal/process/server":       {"conn", "coro", "loop", "pubsub", "stream", "handlers", "handlers/auth", "handlers/cache", "internal/process/accesslog", "internal/base/asynclog", "internal/tls/certs", "internal/process/config", "internal/process/confine", "internal/base/confpath", "internal/base/metrics", "internal/base/openfiles", "internal/base/settings", "internal/process/sockets", "internal/process/streams", "internal/base/sysio"},
	"internal/process/config":       {"conn", "coro", "loop", "pubsub", "stream", "handlers", "handlers/*", "fastcgi", "internal/process/accesslog", "internal/modules/around", "internal/tls/certs", "internal/content/coding", "internal/modules/compression", "internal/process/confine", "internal/base/confpath", "internal/wire/http1", "internal/base/metrics", "internal/base/networks", "internal/base/settings", "internal/process/sockets", "internal/process/streams", "internal/base/sysio", "internal/base/tags"},
	"internal/base/settings":        {"internal/base/ascii", "internal/base/confpath", "internal/base/tags"},
	"internal/base/tags":            {},
	"internal/tls/crl":              {"internal/base/confpath"},
	"internal/tls/certs":            {"internal/base/ascii", "internal/base/confpath", "internal/tls/crl", "internal/base/metrics", "internal/base/settings", "internal/base/sysio"},
	"internal/process/sockets":      {"loop", "internal/base/confpath", "internal/base/settings"},
	"internal/process/accesslog":    {"conn", "loop", "internal/base/confpath", "internal/base/settings", "internal/wire/template"},
	"internal/process/reference":    {"handlers", "internal/process/config", "internal/base/tags", "internal/process/server"},
	"lwangotest":                    {"conn", "internal/test/*"},
	"":                              {"client", "conn", "coro", "handlers", "handlers/cache", "loop", "pubsub", "stream", "internal/process/config", "internal/process/server", "internal/base/asynclog"},
	"internal/process/top":          {"internal/base/metrics"},
	"internal/command":              {"", "pubsub/redis", "internal/process/server", "internal/process/top"},
	"cmd/*":                         {"internal/command"},
	"samples/*":                     {"", "client", "conn", "stream", "loop", "coro", "pubsub"},
	"samples/upload":                {"", "conn", "loop", "pubsub", "handlers/sse"},
}

// only names the third-party imports and standard packages that are some package's alone, or
// forbidden to it.
var only = map[string][]string{
	"github.com/redis/go-redis/v9":                    {"pubsub/redis", "internal/test/broker"},
	"github.com/redis/go-redis/v9/logging":            {"pubsub/redis", "internal/test/broker"},
	"github.com/redis/go-redis/v9/maintnotifications": {"pubsub/redis"},
	"github.com/chromedp/chromedp":                    {"internal/test/browser"},
	"golang.org/x/crypto/bcrypt":                      {"handlers/auth"},
	"golang.org/x/crypto/acme":                        {"internal/tls/certs"},
	"github.com/andybalholm/brotli":                   {"internal/content/coding"},
	"github.com/klauspost/compress/flate":             {"internal/content/coding", "handlers/websocket"},
	"github.com/klauspost/compress/zstd":              {"internal/content/coding"},
	"github.com/BurntSushi/toml":                      {"internal/base/settings"},
	"github.com/landlock-lsm/go-landlock/landlock":    {"internal/process/confine"},

	"github.com/landlock-lsm/go-landlock/landlock/syscall": {"internal/process/confine"},

	"golang.org/x/sys/unix": {"internal/content/cachestore", "loop", "stream", "conn", "handlers/*", "internal/base/sysio", "fastcgi/internal/fcgitest", "internal/process/server", "internal/process/top", "internal/process/accesslog", "internal/process/config", "internal/process/sockets", "internal/test/*", "lwangotest", "samples/tail", "samples/upload", "internal/process/confine"},
	"net/http":              {"", "lwangotest", "conn", "handlers", "handlers/*", "fastcgi", "internal/modules/compression", "internal/modules/gateway", "internal/modules/relay", "internal/process/server", "internal/tls/certs", "internal/process/top", "internal/test/*", "samples/fanout"},
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
