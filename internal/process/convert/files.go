package convert

import (
	"path/filepath"
	"slices"
	"strings"
)

// files makes a route of a location that sends files.
func (c *converter) files(out *site, s *server, r *route, l *location, all []*location) bool {
	folder, ok := c.folder(l)
	if !ok {
		return false
	}
	r.set("module", "serve_files")
	r.set("path", folder)
	index := c.index(l.scope)
	php := c.phpOf(l, all)
	if php != nil {
		return c.phpFiles(out, r, l, php, folder, index)
	}
	c.serveFiles(r, l, index)
	c.tryFiles(out, r, l)
	return true
}

// folder returns the folder of the files of a location, for paths below its prefix.
func (c *converter) folder(l *location) (string, bool) {
	if alias := l.scope.own("alias"); len(alias) > 0 {
		d := alias[0]
		switch {
		case strings.Contains(d.arg(0), "$"):
			c.left(d, "a folder has no variables")
			return "", false
		case l.matches():
			c.left(d, "a route with an expression has no alias")
			return "", false
		}
		d.done = true
		path := c.prefixPath(d.arg(0))
		if base := filepath.Base(path); l.mod == "" && filepath.Base(l.uri) == base &&
			filepath.Ext(base) != "" && !strings.HasSuffix(d.arg(0), "/") {
			l.mod = "=" // a prefix that is a file
		}
		if l.mod == "=" && !strings.HasSuffix(d.arg(0), "/") {
			if filepath.Base(path) != filepath.Base(l.uri) {
				c.left(d, "a file of another name than that of the path: make a link to it")
				return "", false
			}
			path = filepath.Dir(path)
		}
		return path, true
	}
	root, ok := c.rootOf(l)
	if !ok {
		return "", false
	}
	switch {
	case l.mod == "@" || l.prefix() == "/":
		return root, true
	case l.mod == "=":
		return filepath.Join(root, filepath.Dir(l.uri)), true
	}
	return filepath.Join(root, l.prefix()), true
}

// rootOf returns the folder that root names for a location.
func (c *converter) rootOf(l *location) (root string, ok bool) {
	d := l.scope.last("root")
	if d == nil {
		return c.prefixPath("html"), !l.implied
	}
	root, err := c.text(l.scope, d.arg(0), nil)
	if err != nil || strings.Contains(root, "{") {
		c.left(d, "a folder has no variables: a site for each name, or a program of its own")
		return "", false
	}
	return c.prefixPath(root), true
}

// index returns the files that stand for a folder.
func (c *converter) index(s *scope) (all []string) {
	for _, d := range s.find("index") {
		for _, name := range d.args {
			if strings.ContainsAny(name, "$/") {
				c.left(d, "an index is a name of a file in the folder")
			} else if !slices.Contains(all, name) {
				all = append(all, name)
			}
		}
	}
	if all == nil {
		all = []string{"index.html"}
	}
	return all
}

// serveFiles sets the keys of serve_files.
func (c *converter) serveFiles(r *route, l *location, index []string) {
	s := l.scope
	if l.mod == "=" {
		// The prefix of an exact route is the path of the file, and not that of its folder.
		c.exactFile(r, l)
	}
	plain := slices.DeleteFunc(slices.Clone(index), func(n string) bool {
		return strings.HasSuffix(n, ".php")
	})
	switch {
	case len(plain) == 0:
		r.set("index", []string{})
	case !slices.Equal(plain, []string{"index.html"}):
		r.set("index", plain)
	}
	if s.on("autoindex") {
		r.set("listing", true)
	}
	c.types(r, s)
	if control := c.cacheControl(s); control != "" {
		r.set("cache_control", control)
	}
}

// exactFile makes a rewrite of the route for one path to the file of that name: the name of a file
// is what follows the prefix, so the route for all paths of the folder has to send it.
func (c *converter) exactFile(r *route, l *location) {
	if strings.HasSuffix(l.uri, "/") {
		return
	}
	r.drop("exact")
	r.set("prefix", cleanPath(filepath.Dir(l.uri)))
	r.set("regexp", "^"+quoteRegexp(l.uri)+"$")
}

// types carries over the types block of a location.
func (c *converter) types(r *route, s *scope) {
	for _, d := range s.own("types") {
		d.done = true
		types := new(table)
		for _, t := range d.block {
			t.done = true
			for _, ending := range t.args {
				types.set("."+ending, t.name)
			}
		}
		if !types.empty() {
			r.set("types", types)
		} else if d := s.last("default_type"); d != nil {
			c.say(d, differs, "types of files follow from their endings")
		}
	}
}

// tryFiles carries over try_files of a location that sends files.
func (c *converter) tryFiles(out *site, r *route, l *location) {
	for _, d := range l.scope.take("try_files") {
		c.try(out, r, l, d)
	}
}

func (c *converter) try(out *site, r *route, l *location, d *directive) {
	if len(d.args) < 2 {
		c.left(d, "expected files and what comes in their place")
		return
	}
	last, files := d.last()
	folders := false
	for _, a := range files {
		ending, isFile := strings.CutPrefix(a, "$uri")
		switch {
		case a == "$uri":
		case a == "$uri/":
			folders = true
		case isFile && strings.HasPrefix(ending, ".") && !strings.ContainsAny(ending, "$/"):
			rule := new(table)
			rule.set("exists", "no")
			not := rule.sub("not")
			not.set("regexp", quoteRegexp(ending)+"$")
			rule.set("rewrite", strings.TrimSuffix(r.get("prefix").(string), "/")+"/{rest}"+ending)
			r.rules = append(r.rules, rule)
		case isFile && strings.HasPrefix(ending, "/") && slices.Contains(c.index(l.scope), ending[1:]):
			folders = true
		case !strings.Contains(a, "$"):
			c.left(d, "whether another file than that of the path exists cannot be asked: "+a)
		default:
			c.left(d, "files are those of the path: not "+a)
		}
	}
	if strings.HasPrefix(last, "=") {
		if last != "=404" {
			rule := new(table)
			c.missing(rule, folders)
			c.deny(rule, d, last[1:])
			r.rules = append(r.rules, rule)
		}
		return
	}
	prefix := r.get("prefix").(string)
	if target, below := strings.CutPrefix(last, strings.TrimSuffix(prefix, "/")+"/"); below &&
		!l.matches() && folders && !strings.ContainsAny(last, "?$@") && strings.HasSuffix(last, ".html") {
		c.say(d, differs, "requests whose Accept asks for a page get "+last+"; others get 404")
		r.set("fallback", target)
		return
	}
	rule := new(table)
	c.missing(rule, folders)
	if c.lead(out, rule, l, d, last) {
		r.rules = append(r.rules, rule)
	}
}

// missing sets the condition that neither the file nor, with folders, the folder exists.
func (c *converter) missing(rule *table, folders bool) {
	if folders {
		rule.set("exists", "no")
	} else {
		rule.set("exists", []string{"folder", "no"})
	}
}

// lead lets a rule lead to a path or a named location, the last word of try_files.
func (c *converter) lead(out *site, rule *table, l *location, d *directive, last string) bool {
	if name, ok := strings.CutPrefix(last, "@"); ok {
		at := out.namedLocations[name]
		if at == nil {
			c.left(d, "there is no location "+last)
			return false
		}
		if rewrite := c.onlyRewrites(at); rewrite != nil {
			rewrite.done = true
			c.leftAll(at.at.block, byItself, "of a location that only rewrites")
			return c.rewriteTo(rule, at.scope, rewrite)
		}
		rule.set("rewrite", "/_"+name+"{uri}")
		return true
	}
	to, err := c.text(l.scope, last, nil)
	if err != nil {
		c.left(d, err.Error())
		return false
	}
	if !strings.HasPrefix(to, "/") {
		c.left(d, "expected a path behind the files")
		return false
	}
	if !strings.Contains(to, "?") { // the query stays
		to = strings.TrimSuffix(to, "{query}")
	}
	rule.set("rewrite", to)
	return true
}
