package repo_test

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/lwango/lwango"

// floors has the wings of the repository, the lowest floor first. A wing is a folder with all that
// is below it, and "" is package lwango; what is below handlers is a wing of its own. Code imports
// wings of lower floors, and packages of its own wing; tests import what they like.
//
// A wing stands as low as its imports let it. So each floor is needed by something above it, and
// wings that share a floor know nothing of each other.
var floors = [][]string{
	{"coro", "timeoutwheel", "internal/base"},
	{"internal/wire", "loop"},
	{"stream", "pubsub", "internal/tls"},
	{"conn", "internal/upstream", "internal/content"},
	{"client", "handlers", "handlers/upstreams"},
	{"internal/modules"},
	{"handlers/*"},
	{"fastcgi"},
	{"internal/process"},
	{""},
	{"internal/command", "samples", "internal/test"},
	{"cmd", "lwangotest"},
}

// only names the third-party imports and standard packages that are some package's alone, or
// forbidden to it.
var only = map[string][]string{
	"github.com/redis/go-redis/v9":                    {"pubsub/redis", "internal/test/broker"},
	"github.com/redis/go-redis/v9/logging":            {"pubsub/redis", "internal/test/broker"},
	"github.com/redis/go-redis/v9/maintnotifications": {"pubsub/redis"},
	"github.com/chromedp/chromedp":                    {"internal/test/browser"},
	"golang.org/x/crypto/bcrypt":                      {"handlers/auth"},
	"golang.org/x/crypto/argon2":                      {"handlers/auth"},
	"github.com/golang-jwt/jwt/v5":                    {"handlers/auth"},
	"github.com/go-crypt/x/crypt":                     {"handlers/auth"},
	"github.com/go-crypt/x/yescrypt":                  {"handlers/auth"},
	"github.com/mholt/acmez/v3/acme":                  {"internal/tls/certs"},
	"github.com/andybalholm/brotli":                   {"internal/content/coding"},
	"github.com/klauspost/compress/flate": {"internal/content/coding",
		"handlers/websocket"},
	"github.com/klauspost/compress/zstd":           {"internal/content/coding"},
	"github.com/BurntSushi/toml":                   {"internal/base/settings"},
	"github.com/gorilla/websocket":                 {"lwangotest"},
	"github.com/landlock-lsm/go-landlock/landlock": {"internal/process/confine"},

	"github.com/landlock-lsm/go-landlock/landlock/syscall": {"internal/process/confine"},
	"github.com/youmark/pkcs8":                             {"internal/base/confpath"},

	"golang.org/x/sys/unix": {"internal/content/cachestore", "loop", "stream", "conn", "handlers/*",
		"internal/base/sysio", "fastcgi/internal/fcgitest", "internal/process/server",
		"internal/process/top", "internal/process/accesslog", "internal/process/config",
		"internal/process/sockets", "internal/test/*", "lwangotest", "samples/tail", "samples/upload",
		"samples/ring", "samples/ring/uring",
		"internal/process/confine"},
	"net/http": {"", "lwangotest", "conn", "client", "handlers", "handlers/*", "fastcgi",
		"internal/modules/compression", "internal/modules/gateway", "internal/modules/reverseproxy",
		"internal/process/server", "internal/tls/certs", "internal/process/top", "internal/test/*",
		"samples/fanout"},
}

func TestImportsPointOneWay(t *testing.T) {
	need := make(map[string]int)       // by wing, the lowest floor that its imports let it have
	needed := make(map[[2]string]bool) // pairs of only
	seen := 0
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			_, err := os.Stat(filepath.Join(file, "go.mod")) // a module of its own
			if file != "." && (err == nil || strings.HasPrefix(d.Name(), ".")) || d.Name() == "testdata" {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			return nil
		}
		seen++
		parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		dir := strings.TrimPrefix(filepath.Dir(file), ".")
		wing, floor := wingOf(dir)
		if floor < 0 {
			t.Errorf("%s: the folder is in no wing; decide its place here and in ARCHITECTURE.md", file)
			return nil
		}
		need[wing] = max(need[wing], 0)
		for _, spec := range parsed.Imports {
			name, _ := strconv.Unquote(spec.Path.Value)
			if inside, ok := strings.CutPrefix(name+"/", module+"/"); ok {
				other, below := wingOf(strings.TrimSuffix(inside, "/"))
				if other == wing {
					continue
				}
				if below < 0 || below >= floor {
					t.Errorf("%s imports %s, which is not on a lower floor", file, name)
				}
				need[wing] = max(need[wing], below+1)
				continue
			}
			if users, ok := only[name]; ok {
				user, ok := matching(users, dir)
				if !ok {
					t.Errorf("%s imports %s", file, name)
				}
				needed[[2]string{name, user}] = true
			} else if strings.Contains(strings.Split(name, "/")[0], ".") { // not the standard library's
				t.Errorf("%s imports %s, which no package may", file, name)
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
	for floor, wings := range floors {
		for _, wing := range wings {
			if least, ok := need[wing]; !ok {
				t.Errorf("%q: no code is in this wing", wing)
			} else if least < floor {
				t.Errorf("%q is on floor %d, and its imports let it be on floor %d", wing, floor, least)
			}
		}
	}
	for name, users := range only {
		for _, user := range users {
			if !needed[[2]string{name, user}] {
				t.Errorf("%s is allowed to %q, which does not import it", name, user)
			}
		}
	}
}

// wingOf returns the wing of a folder and its floor; -1: the folder is in none.
func wingOf(dir string) (wing string, floor int) {
	for at := dir; ; at = path.Dir(at) {
		if floor := floorOf(at + "/*"); at != dir && floor >= 0 {
			return at + "/*", floor
		}
		if floor := floorOf(at); floor >= 0 {
			return at, floor
		}
		if !strings.Contains(at, "/") {
			return "", -1
		}
	}
}

func floorOf(wing string) int {
	return slices.IndexFunc(floors, func(wings []string) bool { return slices.Contains(wings, wing) })
}

// matching returns the entry of a list that stands for a folder. "handlers/*" stands for the
// folders in handlers.
func matching(list []string, dir string) (string, bool) {
	for _, entry := range list {
		if entry == dir || strings.HasSuffix(entry, "/*") && entry == path.Dir(dir)+"/*" {
			return entry, true
		}
	}
	return "", false
}
