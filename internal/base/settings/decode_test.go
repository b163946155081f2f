package settings_test

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/test/must"
)

type listener struct {
	Table   settings.Table `toml:",table"`
	Address string         `toml:"address"`
	Certs   []cert         `toml:"tls"`
}

type cert struct {
	Cert string `toml:"cert"`
	Key  string `toml:"key"`
}

type route struct {
	Prefix string         `toml:"prefix"`
	Rest   settings.Table `toml:",rest"`
}

type site struct {
	Hosts  []string `toml:"host"`
	Routes []route  `toml:"route"`
}

type config struct {
	KeepAlive time.Duration       `toml:"keep_alive_timeout" min:"1ms" max:"24h"`
	Grace     time.Duration       `toml:"grace" min:"0s"`
	Body      handlers.Size       `toml:"max_body_size" min:"1B" max:"1GiB"`
	Threads   int                 `toml:"threads" min:"0" max:"64"`
	Port      uint16              `toml:"port"`
	Level     int8                `toml:"level"`
	Weight    float64             `toml:"weight"`
	Handoff   string              `toml:"handoff" oneof:"channel direct"`
	Trace     bool                `toml:"trace"`
	Allow     []netip.Prefix      `toml:"allow"`
	Source    netip.Addr          `toml:"source"`
	Watchdog  *time.Duration      `toml:"watchdog" min:"1ms"`
	Log       *access             `toml:"access_log"`
	Headers   map[string][]string `toml:"headers"`
	Listeners []listener          `toml:"listener"`
	Sites     []site              `toml:"site"`

	Computed string // no tag: never set from a file
}

type access struct {
	Path   string `toml:"path"`
	Format string `toml:"format" oneof:"combined common"`
}

func load(text string) (*config, error) {
	f := settings.Parse("t.conf", ".", text)
	c := &config{KeepAlive: 15 * time.Second, Handoff: "channel"}
	f.Top(c)
	f.Root().Decode(c)
	return c, f.Err()
}

func TestDecodeErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"slip", "# c\n\nkeep_alive_timout = \"15s\"\n",
			`t.conf:3: keep_alive_timout: unknown key (did you mean keep_alive_timeout?)`},
		{"other style of the same words", "keepAliveTimeout = \"15s\"",
			`t.conf:1: keepAliveTimeout: unknown key (did you mean keep_alive_timeout?)`},
		{"exchanged letters", "thraeds = 1", `t.conf:1: thraeds: unknown key (did you mean threads?)`},
		{"nothing like it", "qqqqqqq = 1", `t.conf:1: qqqqqqq: unknown key`},
		{"nothing like it, few keys", "[access_log]\nqqqqqqq = 1",
			`t.conf:2: access_log.qqqqqqq: unknown key (known here: format, path)`},
		{"the second of two tables", "[[listener]]\naddress = 'a'\n[[listener]]\nadress = 'b'\n",
			`t.conf:4: listener.adress: unknown key (did you mean address?)`},
		{"a key of the file below a table", "[[listener]]\naddress = 'a'\nkeep_alive_timeout = '1s'",
			`t.conf:3: listener.keep_alive_timeout: unknown key (keep_alive_timeout belongs at the top of the file, above the first [table])`},
		{"quoted key", "\"a.b\" = 1", `t.conf:1: "a.b": unknown key`},
		{"dotted key", "access_log.pth = 'x'",
			`t.conf:1: access_log.pth: unknown key (did you mean path?)`},
		{"behind a long string", "[headers]\na = \"\"\"\nx = 1\n[b]\n\"\"\"\n[access_log]\nb = 1",
			`t.conf:7: access_log.b: unknown key (known here: format, path)`},
		{"inside an inline table",
			"[[listener]]\ntls = [\n  { cert = 'a', key = 'b' }, # one\n  { cert = 'a',\n    kye = 'b' " +
				"},\n]",
			`t.conf:5: listener.tls.kye: unknown key (did you mean key?)`},

		{"string for integer", "threads = \"4\"",
			`t.conf:1: threads: expected an integer, found the string "4"`},
		{"float for integer", "threads = 1.5",
			`t.conf:1: threads: expected an integer, found the number 1.5`},
		{"list for integer", "threads = [1]", `t.conf:1: threads: expected an integer, found a list`},
		{"table for integer", "[threads]", `t.conf:1: threads: expected an integer, found a table`},
		{"date for string", "handoff = 2026-01-02", `t.conf:1: handoff: expected a string, found a date`},
		{"integer for bool", "trace = 1", `t.conf:1: trace: expected true or false, found the integer 1`},
		{"bool for float", "weight = true", `t.conf:1: weight: expected a number, found true`},
		{"integer for duration", "keep_alive_timeout = 15",
			`t.conf:1: keep_alive_timeout: expected a duration such as "15s", found the integer 15 (for seconds write "15s")`},
		{"bool for duration", "keep_alive_timeout = false",
			`t.conf:1: keep_alive_timeout: expected a duration such as "15s", found false`},
		{"unit missing", "keep_alive_timeout = \"15\"",
			`t.conf:1: keep_alive_timeout: expected a duration such as "15s", found "15" (units are ms, s, m, h)`},
		{"bool for size", "max_body_size = true",
			`t.conf:1: max_body_size: expected a size such as "16KiB", found true`},
		{"integer for strings", "[[site]]\nhost = 1",
			`t.conf:2: site.host: expected a string or a list of them, found the integer 1`},
		{"integer among strings", "[[site]]\nhost = [\n'a',\n1]",
			`t.conf:4: site.host: expected a string, found the integer 1`},
		{"string for table", "access_log = 'x'",
			`t.conf:1: access_log: expected a table, found the string "x"`},
		{"string for tables", "site = 'x'",
			`t.conf:1: site: expected a table or a list of them, found the string "x"`},
		{"integer for map", "headers = 1", `t.conf:1: headers: expected a table, found the integer 1`},
		{"table in map", "[headers]\na.b = 'x'",
			`t.conf:2: headers.a: expected a string or a list of them, found a table`},
		{"integer for text", "source = 1", `t.conf:1: source: expected a string, found the integer 1`},
		{"bad text", "source = \"x\"", `t.conf:1: source: ParseAddr("x"): unable to parse IP`},
		{"bad text in a list", "allow = ['10.0.0.0/8',\n'x']",
			`t.conf:2: allow: netip.ParsePrefix("x"): no '/'`},

		{"below the range", "threads = -1", `t.conf:1: threads: must be between 0 and 64, found -1`},
		{"above the range", "threads = 65", `t.conf:1: threads: must be between 0 and 64, found 65`},
		{"range of the type", "port = 65536", `t.conf:1: port: must be between 0 and 65535, found 65536`},
		{"negative for unsigned", "port = -1", `t.conf:1: port: must be between 0 and 65535, found -1`},
		{"range of a signed type", "level = 200",
			`t.conf:1: level: must be between -128 and 127, found 200`},
		{"duration below", "keep_alive_timeout = '0s'",
			`t.conf:1: keep_alive_timeout: must be between 1ms and 24h, found 0s`},
		{"duration with one bound", "grace = '-1s'", `t.conf:1: grace: must be at least 0s, found -1s`},
		{"pointer", "watchdog = '1us'", `t.conf:1: watchdog: must be at least 1ms, found 1us`},
		{"size above", "max_body_size = '2GiB'",
			`t.conf:1: max_body_size: must be between 1B and 1GiB, found 2GiB`},
		{"size too large to count", "max_body_size = '9999999999GiB'",
			`t.conf:1: max_body_size: 9999999999GiB is more than can be counted`},
		{"ambiguous unit", "max_body_size = '16k'",
			`t.conf:1: max_body_size: unknown unit "k": write one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB`},
		{"fraction", "max_body_size = '1.5MiB'",
			`t.conf:1: max_body_size: expected a size such as "16KiB", found "1.5MiB"`},
		{"other word", "handoff = 'fast'",
			`t.conf:1: handoff: expected "channel" or "direct", found "fast"`},

		{"all of them, by line",
			"threads = 'x'\n\n[access_log]\nz = 1\nformat = 'f'\n[[site]]\nhosts = 'a'\n",
			`t.conf:1: threads: expected an integer, found the string "x"
t.conf:4: access_log.z: unknown key (known here: format, path)
t.conf:5: access_log.format: expected "combined" or "common", found "f"
t.conf:7: site.hosts: unknown key (did you mean host?)`},

		{"syntax", "a = 1\nb = \nc = 3\n", "t.conf:2: expected value but found '\\n' instead"},
		{"syntax at the end", "a = [1,\n", `t.conf:1: unexpected EOF; expected value`},
		{"key twice", "threads = 1\nthreads = 2\n", `t.conf:2: Key 'threads' has already been defined.`},
		{"not text", "\xff\xfe\x00",
			`t.conf:1: files cannot contain NULL bytes; probably using UTF-16; TOML files must be UTF-8`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := load(test.text)
			if diff := cmp.Diff(test.want, fmt.Sprint(err)); diff != "" {
				t.Errorf("text:\n%s\n(-want +got):\n%s", test.text, diff)
			}
			var e *settings.Error
			if !errors.As(err, &e) || e.File != "t.conf" {
				t.Errorf("no *Error can be had from %T", err)
			}
		})
	}
}

func TestDecodeValues(t *testing.T) {
	second := time.Second
	tests := []struct {
		name, text string
		want       config
	}{
		{"defaults stay", "", config{KeepAlive: 15 * second, Handoff: "channel"}},
		{"scalars",
			"keep_alive_timeout = '1m'\nthreads = 2\nport = 80\nlevel = -3\nhandoff = 'direct'\ntrace = " +
				"true\nweight = 2\nwatchdog = '1s'\nsource = '::1'",
			config{KeepAlive: 60 * second, Threads: 2, Port: 80, Level: -3, Handoff: "direct", Trace: true,
				Weight:   2,
				Watchdog: &second, Source: netip.MustParseAddr("::1")}},
		{"plain bytes", "max_body_size = 1000",
			config{KeepAlive: 15 * second, Handoff: "channel", Body: 1000}},
		{"one or a list",
			"[headers]\na = 'x'\nb = ['y', 'z']\n[[site]]\nhost = 'h'\n[[site]]\nhost = ['i', 'j']",
			config{KeepAlive: 15 * second, Handoff: "channel",
				Headers: map[string][]string{"a": {"x"}, "b": {"y", "z"}},
				Sites:   []site{{Hosts: []string{"h"}}, {Hosts: []string{"i", "j"}}}}},
		{"one inline table for a list", "[[listener]]\ntls = { cert = 'c', key = 'k' }",
			config{KeepAlive: 15 * second, Handoff: "channel",
				Listeners: []listener{{Certs: []cert{{"c", "k"}}}}}},
		{"a pointer to a table", "access_log.path = 'p'",
			config{KeepAlive: 15 * second, Handoff: "channel", Log: &access{Path: "p"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			got := must.Get(load(test.text))(t)
			ignore := cmp.FilterValues(func(a, b settings.Table) bool { return true }, cmp.Ignore())
			if diff := cmp.Diff(test.want, *got, ignore, cmp.Comparer(func(a, b netip.Addr) bool {
				return a == b
			})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A bad value must not leak into the program half decoded: the default stays.
func TestWrongValueKeepsDefault(t *testing.T) {
	c, err := load("keep_alive_timeout = '0s'\nhandoff = 'x'\nwatchdog = 'x'")
	if err == nil || c.KeepAlive != 15*time.Second || c.Handoff != "channel" || c.Watchdog != nil {
		t.Errorf("got %+v, %v", c, err)
	}
}

func TestRest(t *testing.T) {
	text :=
		"[[site]]\n[[site.route]]\nprefix = '/'\npath = 1\nindx = 'i'\n[[site.route]]\npefix = '/'\n"
	f := settings.Parse("t.conf", ".", text)
	var c config
	f.Root().Decode(&c)
	for _, r := range c.Sites[0].Routes {
		var module struct {
			Path  string `toml:"path"`
			Index string `toml:"index"`
		}
		r.Rest.Decode(&module)
		if !r.Rest.Has("path") {
			r.Rest.Errorf("path", "missing")
		}
	}
	c.Sites[0].Routes[1].Rest.Errorf("", "about the table itself")
	want := `t.conf:4: site.route.path: expected a string, found the integer 1
t.conf:5: site.route.indx: unknown key (did you mean index?)
t.conf:6: site.route: about the table itself
t.conf:6: site.route.path: missing
t.conf:7: site.route.pefix: unknown key (did you mean prefix?)`
	if diff := cmp.Diff(want, fmt.Sprint(f.Err())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestInline: keys that tables have in common stand in one struct.
func TestInline(t *testing.T) {
	type common struct {
		Size  int            `toml:"size"`
		Table settings.Table `toml:",table"`
	}
	var c struct {
		common `toml:",inline"`
		Name   string `toml:"name"`
		A      struct {
			Common common         `toml:",inline"`
			Rest   settings.Table `toml:",rest"`
		} `toml:"a"`
	}
	f := settings.Parse("t.conf", ".", "name = 'n'\nsize = 1\n[a]\nsize = 2\nsice = 3")
	f.Root().Decode(&c)
	if c.Size != 1 || c.A.Common.Size != 2 || c.Name != "n" {
		t.Errorf("got %+v", c)
	}
	c.Table.Errorf("size", "outer")
	c.A.Common.Table.Errorf("size", "inner")
	c.A.Rest.Decode(&struct{}{})
	want := `t.conf:2: size: outer
t.conf:4: a.size: inner
t.conf:5: a.sice: unknown key (did you mean size?)`
	if diff := cmp.Diff(want, fmt.Sprint(f.Err())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if keys := settings.Keys(&c); !slices.Equal(keys, []string{"size", "name", "a"}) {
		t.Errorf("keys: %q", keys)
	}
}

func TestUnsupportedFieldPanics(t *testing.T) {
	defer func() {
		if r := recover(); !strings.Contains(fmt.Sprint(r), "chan int cannot be set") {
			t.Errorf("recovered %v", r)
		}
	}()
	var v struct {
		C chan int `toml:"c"`
	}
	settings.Parse("t.conf", ".", "c = 1").Root().Decode(&v)
}
