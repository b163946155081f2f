package repo_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

// homeMade has the words in identifiers that are this repository's own, since the field has none
// for what they mean. Each has a row in the glossary of ARCHITECTURE.md.
var homeMade = []string{
	"abandon", "armed", "await", "bridge", "claim", "dead", "drained", "fired", "held",
	"raw descriptor", "turn", "unknown",
}

// abolished has the words that identifiers had instead of one of the field, or with several
// meanings. The word that is to be taken stands behind each. It is for the code in a folder and
// below; "" is all code.
var abolished = map[string]map[string]string{
	"": {
		"advice":        "hint",
		"asker":         "subrequest",
		"barren":        "exhausted",
		"believe":       "apply",
		"climb":         "verify above",
		"concern":       "warning",
		"consult":       "subrequest",
		"crossing":      "bridge",
		"crowds":        "evictor, fullLog",
		"culprit":       "running stack",
		"deaf":          "done, ignore",
		"deafen":        "finish",
		"debt":          "cost",
		"errand":        "subrequest",
		"fate":          "verdict",
		"forfeit":       "even with input",
		"forsake":       "end",
		"hasty":         "closes early",
		"headless":      "head failed",
		"heirs":         "purge sender",
		"hurry":         "limit",
		"impatient":     "deadline writer",
		"indispensable": "unmark idle",
		"introduce":     "proxy header",
		"introduced":    "proxy header",
		"jail":          "sandbox",
		"lend":          "extend",
		"lends":         "extends",
		"lent":          "extension",
		"loan":          "raw descriptor",
		"loans":         "raw descriptor",
		"outlast":       "await",
		"overdue":       "idle timeout",
		"payer":         "charged client",
		"picky":         "drop newest",
		"prompt":        "notify",
		"remedy":        "hint",
		"risen":         "came up",
		"rung":          "posted",
		"strand":        "abandon",
		"tallies":       "stats",
		"tally":         "stats",
		"unheard":       "client left",
		"unmeant":       "upgrade status",
		"unsaid":        "undelimited",
		"unshaken":      "handshake error",
		"unshow":        "take back",
		"vouch":         "mark valid",
		"vouched":       "valid",
		"waning":        "old",
		"work2":         "active state",
	},
	"conn": {
		"aim":      "set target",
		"astray":   "used off the loop",
		"begin2":   "begin session",
		"crowd":    "idle scan",
		"excuse":   "unless tapped",
		"greeted":  "preface read",
		"handed":   "hijacked",
		"link":     "hijacked conn, stream conn",
		"parted":   "close_notify sent",
		"patience": "limit, timeout",
		"remnant":  "closed stream",
		"seldom":   "log limiter",
		"serves2":  "wants HTTP/2",
		"severed":  "aborted",
		"site":     "client network; a site is [[site]] of the configuration",
		"speaks2":  "is HTTP/2",
		"stayer":   "owner",
		"stays":    "owner",
		"tail1":    "h1_kept open",
		"tail2":    "h2_kept open",
		"unmade":   "failed",
	},
	"handlers/auth": {"ask": "send", "look": "check", "told": "replaced"},
	"handlers/cache": {
		"ask":         "request",
		"asks":        "forwards",
		"coming":      "arriving",
		"passes":      "hit for miss",
		"past":        "forward",
		"uncacheable": "hit for miss",
	},
	"handlers/limit": {"crowd": "by source"},
	"internal/content/cachestore": {
		"hoard":    "memory",
		"lane":     "slab queue",
		"shelf":    "kept open",
		"shelve":   "keep open",
		"spoil":    "purge",
		"spoiled":  "purged",
		"unshelve": "close kept",
	},
	"internal/wire/rfc9111":   {"expiring": "has expires", "without": "omitted"},
	"handlers/websocket":      {"look": "check", "packed": "compressed, deflated"},
	"internal/base/networks":  {"site": "client network; a site is [[site]] of the configuration"},
	"internal/modules/around": {"site": "context; a site is [[site]] of the configuration"},
	"internal/process/config": {"told": "what is told"},
	"internal/upstream": {
		"ailing":   "unhealthy",
		"endpoint": "backend",
		"goodbye":  "close_notify, GOAWAY",
		"home":     "sticky",
		"hurried":  "closes early",
		"mark":     "affinity",
		"member":   "server",
		"part":     "server",
		"patient":  "closes early",
		"peer":     "backend",
		"place":    "slot, resolved address",
		"relay":    "reverse proxy",
		"shelf":    "idle list",
		"site":     "client network; a site is [[site]] of the configuration",
		"spot":     "position",
		"stale":    "none works",
		"ticket":   "waiter",
		"told":     "reported",
		"untold":   "undecided",
	},
	"loop": {
		"aside": "off loop", "become": "set task", "behind": "low priority", "crowded": "overloaded",
		"holder": "flusher", "kept": "idle", "listening": "notifiable", "owed": "remainder",
		"owes": "remainder", "resting": "idle", "scarce": "spare in use", "told": "logged",
	},
	"pubsub": {"bare": "forms dropped", "born": "first known", "calm": "caught up", "mention": "claim",
		"patience": "timeout", "tell": "publish", "told": "refreshed"},
	"stream": {
		"aside": "off loop", "crowded": "overloaded", "excuse": "reset silence of",
		"forgive": "reset wait", "heard": "saw activity", "shaken": "handshake done",
	},
	"internal/wire/http2": {"slim": "release, trim", "starves": "blocked", "worth": "refund"},
}

// declaredWords returns the words of all identifiers that the code of the repository declares,
// without tests, each with one place where it stands, by folder.
func declaredWords(t *testing.T) map[string]map[string]token.Position {
	words := make(map[string]map[string]token.Position)
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		switch name := entry.Name(); {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"testdata", "bench", "interop", ".git"}, name):
			return fs.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
			return nil
		}
		set := token.NewFileSet()
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		folder := filepath.Dir(path)
		if words[folder] == nil {
			words[folder] = make(map[string]token.Position)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			for _, id := range declaredBy(n) {
				for _, word := range wordsOf(id.Name) {
					words[folder][word] = set.Position(id.Pos())
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return words
}

// declaredBy returns the identifiers that a node itself declares.
func declaredBy(n ast.Node) (all []*ast.Ident) {
	add := func(exprs ...ast.Expr) {
		for _, e := range exprs {
			if id, ok := e.(*ast.Ident); ok {
				all = append(all, id)
			}
		}
	}
	switch n := n.(type) {
	case *ast.FuncDecl:
		add(n.Name)
	case *ast.TypeSpec:
		add(n.Name)
	case *ast.ValueSpec:
		all = n.Names
	case *ast.Field:
		all = n.Names
	case *ast.AssignStmt:
		if n.Tok == token.DEFINE {
			add(n.Lhs...)
		}
	case *ast.RangeStmt:
		if n.Tok == token.DEFINE {
			add(n.Key, n.Value)
		}
	}
	return all
}

// wordsOf returns the words of an identifier in small letters: "read", "http", "header" and "2" of
// readHTTPHeader2, and that with the digit, "header2", as well.
func wordsOf(name string) (words []string) {
	letters := []rune(name)
	from := 0
	end := func(to int) {
		if word := strings.Trim(strings.ToLower(string(letters[from:to])), "_"); word != "" {
			words = append(words, word)
			if plain := strings.TrimRight(word, "0123456789"); plain != word {
				words = append(words, plain)
			}
		}
		from = to
	}
	for i := 1; i < len(letters); i++ {
		before, here := letters[i-1], letters[i]
		switch next := i+1 < len(letters) && unicode.IsLower(letters[i+1]); {
		case here == '_':
			end(i)
			from++
		case unicode.IsUpper(here) && (!unicode.IsUpper(before) || next):
			end(i)
		}
	}
	end(len(letters))
	return words
}

// TestGlossary finds words of homeMade that the glossary does not have, rows of the glossary for
// other words, and those for words that no identifier has.
func TestGlossary(t *testing.T) {
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, glossary, ok := strings.Cut(string(text), "\n## Glossary\n")
	glossary, _, _ = strings.Cut(glossary, "\n## ")
	if !ok {
		t.Fatal("ARCHITECTURE.md has no glossary")
	}
	used := make(map[string]bool)
	for _, words := range declaredWords(t) {
		for word := range words {
			used[word] = true
		}
	}
	var rows []string
	row := regexp.MustCompile(`(?m)^- \*\*([^*]+)\*\*`)
	for _, row := range row.FindAllStringSubmatch(glossary, -1) {
		rows = append(rows, strings.Split(row[1], ", ")...)
	}
	for _, word := range rows {
		if !slices.Contains(homeMade, word) {
			t.Errorf("the glossary has %q, which is not among the words of this test", word)
		}
		for part := range strings.FieldsSeq(word) {
			if !used[part] {
				t.Errorf("the glossary has %q, but no identifier has %q", word, part)
			}
		}
	}
	for _, word := range homeMade {
		if !slices.Contains(rows, word) {
			t.Errorf("the glossary of ARCHITECTURE.md has no row for %q", word)
		}
	}
}

// TestAbolishedWords finds identifiers with a word that was given up.
func TestAbolishedWords(t *testing.T) {
	all := declaredWords(t)
	for _, folder := range slices.Sorted(maps.Keys(all)) {
		for in, words := range abolished {
			if in != "" && folder != in && !strings.HasPrefix(folder, in+"/") {
				continue
			}
			for word, instead := range words {
				if at, ok := all[folder][word]; ok {
					t.Errorf("%s: an identifier has the word %q; expected: %s", at, word, instead)
				}
			}
		}
	}
	for in := range abolished {
		if _, ok := all[in]; !ok && in != "" {
			t.Errorf("the test has words for %s, where there is no code", in)
		}
	}
}

// TestWordsOf splits identifiers into words.
func TestWordsOf(t *testing.T) {
	for name, want := range map[string]string{
		"h2stream": "h2stream", "SET_NAME": "set name", "a": "a", "_": "",
		"readHTTPHeader2": "read http header2 header", "tail1": "tail1 tail", "ID": "id",
	} {
		if got := strings.Join(wordsOf(name), " "); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
