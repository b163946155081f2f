package main

import (
	"bytes"
	_ "embed"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"
)

// A work is one thing that all servers are asked to do.
type work struct {
	Name, Title string
	Kind        string
	Peers       []string

	Program  string // lwango's, a folder of its repository
	Threads  int
	Upstream upstream
	Probe    probe
	load

	Bounds []string

	kind    kind
	bounds  []bound
	planned load // before a smoke run or the descriptor limit took something away
}

func (w work) name() string { return w.Name }

// A load is what clients are told of a work.
type load struct {
	Path, Collect  string
	Conns, Depth   int
	Size           int64 // bytes of an answer, a message or a transfer
	Upload         bool  // from the client
	Rate           float64
	Rooms, Talkers int           // talkers in each room
	FirstRoom      int           // the number of the first
	Nap            time.Duration // of the client, so that frames gather
	Watch          bool          // the silence before
}

// An upstream is what requests are passed on to. php is Debian's PHP-FPM with its opcache, responder
// the least that a FastCGI application can be, http net/http's hello.
type upstream struct {
	Kind             string
	Workers, Backlog int  // PHP's, and its socket's
	Kept             int  // connections that may stay between requests; 0: each request has its own
	Streamed         bool // request bodies go on as they come
}

// A probe is what is asked for at a low rate while the server does something else.
type probe struct {
	Path  string
	Rate  float64
	Plain bool // another listener of the program, with a plain goroutine for each connection
}

// A figure is one number of a work, by its name in works.toml.
type figure struct {
	Title, Bound string
	Digits       int
	Worst        bool
}

// figures are what a client or one round has found.
type figures map[string]float64

type kind struct{ Unit, Columns string }

// A bound is what lwango is to reach: a figure or, with a peer, its ratio to the peer's.
type bound struct {
	figure, sign string // "" for information
	value        float64
	peer         string
}

// parseBound reads "FIGURE [<=|>= VALUE] [x PEER]".
func parseBound(text string) (b bound, err error) {
	words := strings.Fields(text)
	if b.figure = words[0]; len(words) > 2 && (words[1] == "<=" || words[1] == ">=") {
		b.sign = words[1]
		if b.value, err = strconv.ParseFloat(words[2], 64); err != nil {
			return b, err
		}
		words = words[2:]
	}
	if len(words) == 3 && words[1] == "x" {
		b.peer = words[2]
	} else if len(words) != 1 {
		return b, fmt.Errorf("bound %q", text)
	}
	return b, nil
}

func (b bound) holds(v float64) bool {
	return b.sign == "" || b.sign == "<=" && v <= b.value || b.sign == ">=" && v >= b.value
}

//go:embed works.toml
var worksText string

// The tables of works.toml, in its order.
var (
	works       []work
	peers       []peer
	figureTable map[string]figure
	kinds       map[string]kind
)

func init() {
	var file struct {
		Peer   []peer
		Figure map[string]figure
		Kind   map[string]kind
		Work   []work
	}
	meta, err := toml.Decode(worksText, &file)
	if unknown := meta.Undecoded(); err == nil && len(unknown) > 0 {
		err = fmt.Errorf("unknown key %s", unknown[0])
	}
	for i := range file.Work {
		if err == nil {
			err = file.Work[i].complete(file.Figure, file.Kind)
		}
	}
	if err != nil {
		panic("works.toml: " + err.Error())
	}
	works, peers, figureTable, kinds = file.Work, file.Peer, file.Figure, file.Kind
}

// complete sets what a work leaves out and looks up what it names.
func (w *work) complete(table map[string]figure, kinds map[string]kind) error {
	if w.Program == "" {
		w.Program = lwangoCommand
	}
	if w.Size == 0 {
		w.Size = int64(len(hello))
	}
	w.Threads, w.Depth = max(w.Threads, 1), max(w.Depth, 1)
	w.kind, w.planned = kinds[w.Kind], w.load
	names := strings.Fields(w.kind.Columns)
	for _, text := range w.Bounds {
		b, err := parseBound(text)
		if err != nil {
			return fmt.Errorf("%s: %w", w.Name, err)
		}
		w.bounds, names = append(w.bounds, b), append(names, b.figure)
	}
	for _, name := range names {
		if _, ok := table[strings.TrimLeft(strings.TrimPrefix(name, "x:"), "~")]; !ok {
			return fmt.Errorf("%s: unknown figure %q", w.Name, name)
		}
	}
	return nil
}

// named puts a work's unit into a text of the table of figures.
func named(text, unit string) string {
	many := unit + "s"
	switch {
	case unit == "MiB":
		many = unit
	case strings.HasSuffix(unit, "y"):
		many = strings.TrimSuffix(unit, "y") + "ies"
	}
	return strings.NewReplacer("%s", many, "%", unit).Replace(text)
}

// shrink takes from a work what a smoke run has no time for.
func (w *work) shrink() {
	if w.Conns > 64 {
		w.Conns = 100
	} else {
		w.Conns = min(w.Conns, 16)
	}
	w.Size = min(w.Size, 8<<20)
}

// The bodies of answers, of the same length for all servers. The files' bytes look random but are
// fixed: a wrong offset or a short read shows.
const hello = "Hello, world!"

var files = map[string][]byte{"/files/4k.bin": pattern(4 << 10), "/files/1m.bin": pattern(1 << 20)}

func (l load) body() []byte {
	if body := files[l.Path]; body != nil {
		return body
	}
	return []byte(hello)
}

// request is the bytes that the Go clients send; wrk's own request has the same two lines.
func (l load) request(addr string) []byte {
	return bytes.Repeat([]byte("GET "+l.Path+" HTTP/1.1\r\nHost: "+addr+"\r\n\r\n"), l.Depth)
}

func pattern(n int) []byte {
	b := make([]byte, n)
	x := uint32(1)
	for i := range b {
		x = x*1664525 + 1013904223 // the linear congruential generator of Numerical Recipes
		b[i] = byte(x >> 24)
	}
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

// choose picks the named entries of all, in the order of all; an empty list means every one.
func choose[T any](list string, all []T, name func(T) string) ([]T, error) {
	if list == "" {
		return slices.Clone(all), nil
	}
	wanted := strings.Split(list, ",")
	var chosen []T
	for _, entry := range all {
		if i := slices.Index(wanted, name(entry)); i >= 0 {
			chosen = append(chosen, entry)
			wanted = slices.Delete(wanted, i, i+1)
		}
	}
	if len(wanted) > 0 {
		return nil, fmt.Errorf("unknown name %q", wanted[0])
	}
	return chosen, nil
}

func names[T any](all []T, name func(T) string) string {
	var text []string
	for _, entry := range all {
		text = append(text, name(entry))
	}
	return strings.Join(text, ",")
}
