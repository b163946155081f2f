package config_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/BurntSushi/toml"
	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/test/certs"
	"github.com/lwango/lwango/internal/test/must"
)

// sameInForce checks that what -T prints of a configuration is read to the same settings, and
// printed as the same text.
func sameInForce(t *testing.T, s config.Source, name, text string, c *config.Config) {
	t.Helper()
	var first, second bytes.Buffer
	must.Do(t, c.WriteInForce(&first, s))
	listen, root := s.Listen, s.Root
	s.Listen, s.Root = nil, ""
	again, err := s.Parse(name, first.String())
	if err != nil {
		t.Errorf("what -T prints is refused: %v\nof\n%s\nit is\n%s", err, text, first.String())
		return
	}
	must.Do(t, again.WriteInForce(&second, s))
	if diff := cmp.Diff(first.String(), second.String()); diff != "" && root == "" {
		t.Errorf("of what -T prints, -T prints something else (-first +then):\n%s\nof\n%s", diff, text)
	}
	for _, c := range []*config.Config{c, again} { // some limits are by default what others make them
		c.Limits = c.Limits.Complete(c.LargestBody, 0)
	}
	differences := unlikeListeners(c, again)
	if listen != nil { // compared already
		c.Listeners = again.Listeners
	}
	if root == "" { // which replaces the sites of the file
		differences = append(differences,
			unlike("", reflect.ValueOf(c).Elem(), reflect.ValueOf(again).Elem())...)
	}
	for _, d := range differences {
		t.Errorf("what -T prints is another server: %s\nof\n%s\nit is\n%s", d, text, first.String())
	}
}

// unlike names the keys in which two configurations differ.
func unlike(at string, a, b reflect.Value) (all []string) {
	differ := func() []string { return []string{fmt.Sprintf("%s is %v, and then %v", at, a, b)} }
	switch typ := a.Type(); {
	case typ == reflect.TypeFor[settings.Table]():
		return nil
	case typ == reflect.TypeFor[config.Route]():
		all = unlikeModules(at, a.Interface().(config.Route), b.Interface().(config.Route))
	case a.Kind() == reflect.Pointer || a.Kind() == reflect.Slice || a.Kind() == reflect.Map:
		if a.IsNil() != b.IsNil() {
			return differ()
		}
	}
	switch a.Kind() {
	case reflect.Pointer:
		if !a.IsNil() {
			all = unlike(at, a.Elem(), b.Elem())
		}
	case reflect.Slice:
		if a.Len() != b.Len() {
			return differ()
		}
		for i := range a.Len() {
			all = append(all, unlike(fmt.Sprintf("%s[%d]", at, i), a.Index(i), b.Index(i))...)
		}
	case reflect.Struct:
		if isText(a.Type()) {
			if !reflect.DeepEqual(a.Interface(), b.Interface()) {
				return differ()
			}
			return nil
		}
		for i := range a.NumField() {
			f := a.Type().Field(i)
			switch key, ok := f.Tag.Lookup("toml"); {
			case !ok || key == "-" || key == "include" || key == ",rest" || !f.IsExported():
			case key == ",inline" || key == ",switch":
				all = append(all, unlike(at, a.Field(i), b.Field(i))...)
			default:
				all = append(all, unlike(strings.TrimPrefix(at+"."+key, "."), a.Field(i), b.Field(i))...)
			}
		}
	default:
		if fmt.Sprint(a) != fmt.Sprint(b) { // also of NaN
			return differ()
		}
	}
	return all
}

// unlikeModules compares the settings of two routes' modules.
func unlikeModules(at string, a, b config.Route) []string {
	m, ok := config.Builtin().Module(a.Module)
	if !ok || a.Module != b.Module {
		return nil
	}
	ofA, ofB := m.NewSettings(), m.NewSettings()
	if !a.Rest.Decode(ofA) || !b.Rest.Decode(ofB) {
		return []string{at + ": settings that were read are refused"}
	}
	return unlike(at, reflect.ValueOf(ofA).Elem(), reflect.ValueOf(ofB).Elem())
}

// unlikeListeners compares what follows from the keys of listeners.
func unlikeListeners(a, b *config.Config) (all []string) {
	of := func(c *config.Config) (all []string) {
		for _, l := range c.Listeners {
			line := fmt.Sprintf("%v proxies=%+v stream=%v", l.Address, l.Proxies, l.Stream != nil)
			if l.TLS.Config != nil {
				line += fmt.Sprint(" ", l.TLS.Config.NextProtos, l.TLS.Config.MinVersion,
					l.TLS.Config.ClientAuth, len(l.TLS.Config.Certificates))
			}
			all = append(all, line)
		}
		for _, s := range c.Sites {
			if s.Listeners != nil {
				all = append(all, fmt.Sprint(s.Listeners))
			}
		}
		return all
	}
	if x, y := of(a), of(b); !slices.Equal(x, y) {
		all = append(all, fmt.Sprintf("listeners and sites are\n%s\nand then\n%s", strings.Join(x, "\n"),
			strings.Join(y, "\n")))
	}
	return all
}

// TestInForceOfEachKey: -T's text of every value that a key may have alone is the same
// configuration.
func TestInForceOfEachKey(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "t.conf")
	taken := 0
	for _, at := range allSpots() {
		for _, value := range slices.Concat(values, valuesFor(at.tag)) {
			is, known := decoded()[value]
			if !known { // one by the tags
				var table map[string]any
				if _, err := toml.Decode("v = "+value, &table); err != nil {
					continue
				}
				is = table["v"]
			}
			if !takes(at.typ, is) && is != int64(-1) {
				continue
			}
			text := at.before + at.key + " = " + value + "\n"
			if c, err := source().Parse(file, text); err == nil {
				taken++
				sameInForce(t, source(), file, text, c)
			}
		}
	}
	if taken < 400 {
		t.Errorf("only %d values are taken", taken)
	}
	t.Logf("%d values are taken", taken)
}

// valuesFor are values by the tags of a field, and of the types that values has no good ones of.
func valuesFor(tag reflect.StructTag) (all []string) {
	for _, key := range []string{"min", "max", "default"} {
		if text, ok := tag.Lookup(key); ok {
			all = append(all, text, fmt.Sprintf("%q", text))
		}
	}
	for _, word := range strings.Fields(tag.Get("oneof")) {
		all = append(all, fmt.Sprintf("%q", word))
	}
	return append(all, "false", `"2s"`, `"1MiB"`, `"10/s"`, `"127.0.0.1:9"`,
		`["127.0.0.1", "10.0.0.0/8"]`, `"/x"`)
}

// TestInForceOfTheRepository: so it is with every configuration of the repository: its files, those
// of the scripts of tests, and those that documents show.
func TestInForceOfTheRepository(t *testing.T) {
	t.Parallel()
	top := must.Get(filepath.Abs("../../.."))(t)
	read := map[string]int{}
	try := func(kind, file, text string) {
		c, err := source().Parse(file, text)
		if err == nil {
			read[kind]++
			sameInForce(t, source(), file, text, c)
		}
	}
	block := regexp.MustCompile(`(?m)(?:^    .*\n|^\n)+`)
	section := regexp.MustCompile(`(?m)^-- (.+) --$`)
	must.Do(t, filepath.WalkDir(top, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() && strings.HasPrefix(entry.Name(), ".") {
			return fs.SkipDir
		}
		switch filepath.Ext(path) {
		case ".conf":
			try("files", path, string(must.Get(os.ReadFile(path))(t)))
		case ".md":
			text := string(must.Get(os.ReadFile(path))(t))
			for _, shown := range block.FindAllString(text, -1) {
				if !strings.Contains(shown, " = ") {
					continue
				}
				shown = strings.ReplaceAll(shown, "\n    ", "\n")
				try("documents", path, strings.TrimSpace(shown)+"\n")
				try("documents", path, "[[site]]\n"+strings.TrimSpace(shown)+"\n")
			}
		case ".txtar":
			text := string(must.Get(os.ReadFile(path))(t))
			dir := t.TempDir()
			marks := section.FindAllStringSubmatchIndex(text, -1)
			for i, m := range marks {
				end := len(text)
				if i+1 < len(marks) {
					end = marks[i+1][0]
				}
				file := filepath.Join(dir, text[m[2]:m[3]])
				must.Do(t, os.MkdirAll(filepath.Dir(file), 0o700))
				must.Write(t, file, text[m[1]+1:end])
			}
			for _, m := range marks {
				file := filepath.Join(dir, text[m[2]:m[3]])
				try("scripts", file, string(must.Get(os.ReadFile(file))(t)))
			}
		}
		return nil
	}))
	for kind, least := range map[string]int{"files": 2, "documents": 20, "scripts": 20} {
		if read[kind] < least {
			t.Errorf("only %d of the %s are configurations that can be read here", read[kind], kind)
		}
	}
	t.Log(read)
}

// TestInForceTogether: keys of which one has its default by another one, or means nothing without
// it.
func TestInForceTogether(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	ca := certs.New(t)
	cert, key := ca.Files(ca.Issue(1<<40, "a.test"))
	tls := fmt.Sprintf("tls = { cert = %q, key = %q }\n", cert, key)
	file := filepath.Join(dir, "t.conf")
	const page = "[[site.route]]\nprefix = \"/\"\nmodule = \"response\"\nbody = \"x\"\n"
	for _, row := range []struct {
		text   string
		listen []string
		root   string
	}{
		{text: "[[listener]]\naddress = \"*:1\"\n" + tls},
		{text: "[[listener]]\naddress = \"*:1\"\nhttp2 = false\n" + tls},
		{text: "[[listener]]\naddress = \"*:1\"\nhttp2 = true\n"},
		{text: "[[listener]]\naddress = \"*:1\"\n" + tls +
			"[[listener]]\naddress = \"*:2\"\nname = \"a\"\n" +
			"[[site]]\nlistener = \"a\"\n" + page + "[[site]]\nscheme = \"https\"\n" + page},
		{text: "[debug]\n"},
		{text: "[confine]\n"},
		{text: "[cache]\n[[site]]\ncache = true\n" + page},
		{text: "[compression]\n[[site]]\ncompression = false\n[[site.route]]\nprefix = \"/\"\n" +
			"module = \"serve_files\"\npath = \".\"\n"},
		{text: "compression = false\n[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = " +
			"\"serve_files\"\n" +
			"path = \".\"\ncompression = { level = 9 }\n"},
		{text: "[access_log]\npath = \"a.log\"\nformat = \"json\"\n[[site]]\naccess_log = { format = " +
			"\"common\" }\n" + page +
			"[[site]]\nhost = \"b\"\naccess_log = { path = \"b.log\" }\n" + page},
		{text: "[[stream]]\naddress = \"*:5\"\n[[stream.route]]\naddress = \"127.0.0.1:6\"\n"},
		{text: "[[stream]]\naddress = \"*:5\"\n" + tls + "[[stream.route]]\naddress = \"127.0.0.1:6\"\n" +
			"[stream.route.health]\ninterval = \"5s\"\n"},
		{text: "[[site]]\nhost = \"${NOT_SET_LWANGO:-a.test}\"\n[[site.route]]\nprefix = \"/\"\n" +
			"module = \"response\"\nbody = \"$${} $${9} $${x y} $${a:-b} ${NOT_SET_LWANGO:-} $${ " +
			"{path}\"\n"},

		{text: "[[stream]]\naddress = \"*:5\"\n[[stream.route]]\naddress = \"127.0.0.1:6\"\n[[site]]\n" +
			page,
			listen: []string{"127.0.0.1:7", "unix:a.sock"}},
		{text: "[[listener]]\naddress = \"*:1\"\n" + tls + "[[site]]\n" + page,
			listen: []string{"127.0.0.1:7"}},
		{text: "[[stream]]\naddress = \"*:5\"\n[[stream.route]]\naddress = \"127.0.0.1:6\"\n[[site]]\n" +
			page, root: dir},
		{text: "[[stream]]\naddress = \"*:5\"\n[[stream.route]]\naddress = \"127.0.0.1:6\"\n", root: dir},
		{
			text: "max_body_size = \"1GiB\"\n[[site]]\ncache = true\nlimit = { max_body_size = \"5GiB\" " +
				"}\n" + page, root: dir},
	} {
		s := source()
		s.Listen, s.Root = row.listen, row.root
		c, err := s.Parse(file, row.text)
		if err != nil {
			t.Errorf("%v, of\n%s", err, row.text)
			continue
		}
		sameInForce(t, s, file, row.text, c)
	}
}
