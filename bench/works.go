package main

import (
	"bytes"
	"cmp"
	"embed"
	"fmt"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/BurntSushi/toml"

	"github.com/lwango/lwango/bench/tasks"
)

// A work is one thing that all servers are asked to do.
type work struct {
	Name, Title string
	Peers       []string

	Program  string // lwango's, a folder of its repository
	Threads  int
	Upstream upstream
	Probe    probe
	Gzip     string // where the text that is asked for encoded is: sibling, cached, fresh
	Log      bool   // lwango: an access log in JSON
	Count    bool   // lwango: the module status, for which requests are counted by route
	Rules    bool   // lwango: ten rules, of which none is for the request
	Routes   bool   // lwangoapp: 200 routes, one of which is the path's
	Hung     bool   // beside the upstream there is another one, which says nothing
	TCP      bool   // [[stream]]: the server passes bytes on, and knows no HTTP
	Cold     bool   // the load is files that are not in the page cache
	load

	Bounds []bound

	kind  kind
	peers []peer
}

func (w work) name() string { return w.Name }

// A load is what clients are told of a work.
type load struct {
	Kind           string
	Path, Collect  string
	Encoding       string // that answers must have
	Conns, Depth   int
	Streams        int    // of a connection of HTTP/2
	Browser        bool   // requests have the fields of a browser
	Cached         string // for how long the server keeps what its upstream answers; "": not at all
	Varied         bool   // the heads of answers may differ in length
	Distinct       bool   // each request is for a target of its own
	Filled         int    // answers that the server keeps before the clock starts
	Size           int64  // bytes of an answer, a message or a transfer
	Upload         bool   // from the client; beside a probe: forms
	Secure         bool   // TLS; beside a probe: handshakes
	Rate           float64
	Computing      int           // goroutines of the server that compute meanwhile
	Rooms, Talkers int           // talkers in each room
	House          string        // where the rooms are, so that those of two clients differ
	Nap            time.Duration // of the client, so that frames gather
	Delay          time.Duration // of the line to the server, each way,
	Bandwidth      float64       // and the bytes that it carries in a second
}

// An upstream is what requests are passed on to.
type upstream struct {
	Kind             string // an application
	Workers, Backlog int    // PHP's, and its socket's
	Kept             int    // connections that may stay; 0: each request has its own
	Streamed         bool   // request bodies go on as they come
}

// A probe is what is asked for at a low rate while the server does something else.
type probe struct {
	Path  string
	Rate  float64
	Plain bool // another listener of the program, with a goroutine for each connection
}

// A figure is one number of a work, by its name in works.toml.
type figure struct {
	Title, Bound string
	Digits       int
}

// figures are what a client or one round has found.
type figures map[string]float64

type kind struct{ Unit, Units, Columns string }

// A bound is what lwango is to reach: a figure or, with a peer, its ratio to the peer's, or what it
// is above the peer's.
type bound struct {
	Figure, Of, Above string
	Most, Least       *float64 // neither: for information
}

func (b bound) holds(v float64) bool {
	return (b.Most == nil || v <= *b.Most) && (b.Least == nil || v >= *b.Least)
}

//go:embed works.toml
var worksText string

// The tables of works.toml, in its order.
var (
	programs     map[string]program
	peers        []peer
	applications []peer
	works        []work
	figureTable  map[string]figure
)

// application is one of that name.
func application(name string) peer { return must(choose(name, applications))[0] }

func init() {
	var file struct {
		Program     map[string]program
		Peer        []peer
		Application []peer
		Figure      map[string]figure
		Kind        map[string]kind
		Work        []work
	}
	meta := must(toml.Decode(worksText, &file))
	if unknown := meta.Undecoded(); len(unknown) > 0 {
		failf("works.toml: unknown key %s", unknown[0])
	}
	works, figureTable = file.Work, file.Figure
	programs, peers, applications = file.Program, file.Peer, file.Application
	for i := range works {
		works[i].complete(file.Kind)
	}
}

// complete sets what a work leaves out and looks up what it names.
func (w *work) complete(kinds map[string]kind) {
	w.Program = cmp.Or(w.Program, lwangoCommand)
	w.Size = cmp.Or(w.Size, int64(len(hello)))
	w.Threads, w.Depth = max(w.Threads, 1), max(w.Depth, 1)
	w.kind = kinds[w.Kind]
	w.peers = must(choose(strings.Join(w.Peers, ","), peers))
	names := strings.Fields(w.kind.Columns)
	for _, b := range w.Bounds {
		names = append(names, b.Figure)
	}
	for _, name := range names {
		if _, ok := figureTable[strings.TrimLeft(strings.TrimPrefix(name, "x:"), "~")]; !ok {
			failf("works.toml: %s: unknown figure %q", w.Name, name)
		}
	}
}

// named puts the unit into a text of the table of figures.
func (k kind) named(text string) string {
	return strings.NewReplacer("%s", k.Units, "%", k.Unit).Replace(text)
}

// The bodies of answers, of the same length for all servers. The files' bytes look random but are
// fixed: a wrong offset or a short read shows.
const hello = "Hello, world!"

var files = map[string][]byte{"/files/4k.bin": pattern(4 << 10), "/files/1m.bin": pattern(1 << 20),
	"/files/kept/4k.bin": pattern(4 << 10), "/files/kept/1m.bin": pattern(1 << 20),
	"/files/hello.txt": []byte(hello)}

// frontPath is what PHP makes a page of 32 KiB for, with as much work as WordPress has with its own
// (scripts/front.php).
const frontPath = "/app/front.php"

func frontPage() []byte {
	return []byte(strings.Repeat("<p>The quick brown fox jumps over the lazy dog, and sleeps.</p>\n",
		512))
}

// textPath is asked for with Accept-Encoding. Servers have it in a folder of its own.
const textPath = "/gzip/text.txt"

//go:embed *.go
var source embed.FS

// sourceText is 100 KiB of what people write: the beginning of bench's own source. Text that is
// made up compresses in another way, and its size says little of what an encoder is worth.
var sourceText = sync.OnceValue(func() (text []byte) {
	for _, entry := range must(source.ReadDir(".")) {
		text = append(text, must(source.ReadFile(entry.Name()))...)
	}
	return text[:100<<10]
})

func (l load) body() []byte {
	if body := files[l.Path]; body != nil {
		return body
	}
	switch l.Path {
	case textPath:
		return sourceText()
	case frontPath:
		return frontPage()
	case tasks.ItemPath:
		return tasks.JSON(tasks.Items[path.Base(l.Path)])
	}
	return []byte(hello)
}

// kindOfBody is what the media type of body begins with.
func (l load) kindOfBody() string {
	switch l.Path {
	case tasks.ItemPath:
		return "application/json"
	case frontPath:
		return "text/html"
	}
	return "text/plain"
}

// request is the bytes that clients send.
func (l load) request(addr string) []byte {
	fields := "Host: " + addr + "\r\n"
	if l.Encoding != "" {
		fields += "Accept-Encoding: " + l.Encoding + "\r\n"
	}
	path := l.Path
	if l.Distinct {
		path += distinct
	}
	return bytes.Repeat([]byte("GET "+path+" HTTP/1.1\r\n"+fields+"\r\n"), l.Depth)
}

// distinct is behind the path where each request has a target of its own: others have other digits.
const distinct = "?00000000"

func pattern(n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{}).Read(b)
	return b
}

// letters is text without a pattern that a server might cut or repeat unnoticed.
func letters(n int) []byte {
	b := pattern(n)
	for i := range b {
		b[i] = 'a' + b[i]%26
	}
	return b
}

// choose picks the entries of all that a list names; of an empty list, all.
func choose[T interface{ name() string }](list string, all []T) (chosen []T, err error) {
	if list == "" {
		return slices.Clone(all), nil
	}
	for name := range strings.SplitSeq(list, ",") {
		i := slices.IndexFunc(all, func(entry T) bool { return entry.name() == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown name %q", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
