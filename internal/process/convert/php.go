package convert

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// scripts returns which scripts a location with fastcgi_pass is for: those of the patterns, or all
// that are called .php. It is not ok for a location that is for something else.
func (l *location) scripts() (patterns []string, ok bool) { return l.patterns, l.isPHP }

func (l *location) findScripts() (patterns []string, ok bool) {
	if !l.scope.has("fastcgi_pass") {
		return nil, false
	}
	if !l.matches() {
		return nil, false
	}
	re, err := expression(l.uri, l.mod == "~*")
	if err != nil {
		return nil, false
	}
	matches := regexp.MustCompile(re).MatchString
	if matches("/x.php") && matches("/folder/x.php") && !matches("/x.txt") && !matches("/folder/") {
		return nil, true
	}
	texts, rest, ok := literals(l.uri, l.mod == "~*")
	if !ok || rest == "*" && !strings.HasSuffix(l.uri, `\.php`) {
		return nil, false
	}
	for _, t := range texts {
		if !strings.HasPrefix(t, "/") || !strings.HasSuffix(t, ".php") {
			return nil, false
		}
	}
	return texts, true
}

// phpOf returns the location whose scripts a location with files runs, as nginx would look there
// for a path that names one; nil: none.
func (c *converter) phpOf(l *location, all []*location) *location {
	if l.matches() || l.mod == "=" {
		return nil
	}
	best := -1
	var found *location
	for _, p := range all {
		if _, ok := p.scripts(); !ok {
			continue
		}
		if l.fixed && p.under == "/" || !below(l.uri, p.under) || len(p.under) <= best {
			continue
		}
		if p.under != l.uri && l.scope.has("alias", "root") &&
			(l.scope.has("alias") || l.scope.value("root") != p.scope.value("root")) {
			continue // its files are in another folder than the scripts
		}
		best, found = len(p.under), p
	}
	return found
}

// dropsPHP reports whether the scripts of a location run in the route with the files beside them.
func (c *converter) dropsPHP(l *location, all []*location) bool {
	if _, ok := l.scripts(); !ok {
		return false
	}
	for _, f := range all {
		if f.prefix() == l.under && (f.mod == "" || f.mod == "^~") && c.sendsFiles(f) {
			return c.phpOf(f, all) == l && !c.hidden(l, all) &&
				!l.scope.has("internal") && !l.scope.has(accessNames...)
		}
	}
	return false
}

// hidden reports whether a later expression matches the scripts of a location, so that only a route
// of their own goes before it.
func (c *converter) hidden(l *location, all []*location) bool {
	samples, _ := l.scripts()
	if len(samples) == 0 {
		samples = []string{"/index.php", "/folder/index.php"}
	}
	for _, o := range all[slices.Index(all, l)+1:] {
		if !o.matches() || o.under != l.under {
			continue
		}
		re, err := expression(o.uri, o.mod == "~*")
		if err != nil {
			continue
		}
		compiled := regexp.MustCompile(re)
		if slices.ContainsFunc(samples, compiled.MatchString) {
			return true
		}
	}
	return false
}

// sendsFiles reports whether files are what a location has.
func (c *converter) sendsFiles(l *location) bool {
	return !l.scope.has("proxy_pass", "grpc_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "return",
		"stub_status", "empty_gif")
}

// phpFiles makes a route with the module fastcgi of a location with files and that of its scripts.
func (c *converter) phpFiles(out *site, r *route, l, php *location, folder string,
	index []string) bool {
	t := &r.table
	t.drop("path")
	t.set("module", "fastcgi")
	if !c.gatewayAddress(r, php.scope.own("fastcgi_pass")[0], "fastcgi") {
		return false
	}
	t.set("script_path", folder)
	if !slices.Equal(index, []string{"index.php"}) {
		t.set("index", index)
	}
	c.phpTry(out, r, l)
	if patterns, _ := php.scripts(); len(patterns) > 0 {
		c.listed(r, l, patterns)
	}
	c.noPathInfo(r, php)
	for _, d := range php.scope.take("try_files") {
		if last := d.arg(len(d.args) - 1); strings.Contains(last, ".php") {
			t.set("front_missing", true)
		}
	}
	c.gateway(r, php.scope, "fastcgi", folder)
	c.gatewayLogic(php)
	c.locationRules(out, r, php)
	if control := c.cacheControl(l.scope); control != "" {
		t.set("cache_control", control)
	}
	if l.scope.on("autoindex") {
		c.left(l.scope.last("autoindex"),
			"the module fastcgi lists no folders; another route with serve_files does")
	}
	l.php = php
	return true
}

// noPathInfo keeps scripts from running with a path behind their names where nginx runs none so: a
// location such as that of /login.php, or one that denies scripts in a folder, does not match such
// a path, and the script would run past it.
func (c *converter) noPathInfo(r *route, php *location) {
	sample := "/x.php"
	if patterns, _ := php.scripts(); len(patterns) > 0 {
		sample = patterns[0]
	}
	re, err := expression(php.uri, php.mod == "~*")
	if err != nil || regexp.MustCompile(re).MatchString(sample+"/path") {
		return
	}
	rule := new(table)
	rule.set("regexp", `(?i)\.php/`)
	if r.get("try_files") == "front" {
		front, _ := r.get("front").(string)
		if front == "" || strings.Contains(front, "{") {
			front = "/index.php"
		}
		rule.set("rewrite", strings.TrimSuffix(r.get("prefix").(string), "/")+front)
	} else {
		rule.set("deny", 404)
	}
	r.rules = append(r.rules, rule)
}

// listed sets which scripts run, below the prefix of the route.
func (c *converter) listed(r *route, l *location, patterns []string) {
	prefix := strings.TrimSuffix(r.get("prefix").(string), "/")
	var all []string
	for _, p := range patterns {
		if below, ok := strings.CutPrefix(p, prefix+"/"); ok {
			all = append(all, "/"+below)
		}
	}
	r.set("scripts", all)
}

// phpTry sets what paths mean that name no script.
func (c *converter) phpTry(out *site, r *route, l *location) {
	all := l.scope.take("try_files")
	if len(all) == 0 || len(all[0].args) < 2 {
		return
	}
	d := all[0]
	last, _ := d.last()
	scope := l.scope
	var rewrite string
	name, isName := strings.CutPrefix(last, "@")
	if at := out.namedLocations[name]; at != nil && isName {
		if one := c.onlyRewrites(at); one != nil {
			one.done = true
			c.leftAll(at.at.block, byItself, "of a location that only rewrites")
			rewrite, scope = one.arg(1), at.scope
			switch one.arg(0) {
			case "^", ".*", "^.*$", "^(.*)$", "^/(.*)$", "^/(.+)$", "^/(.*)", "^(.*)":
				slash := strings.HasPrefix(one.arg(0), "^/")
				path := "{path}"
				if slash {
					path = "{rest}"
				}
				rewrite = strings.ReplaceAll(rewrite, "$1", path)
			default:
				rewrite = ""
			}
		}
	} else if strings.HasPrefix(last, "/") {
		rewrite = last
	}
	front, ok := c.front(scope, rewrite, strings.TrimSuffix(r.get("prefix").(string), "/"))
	if !ok || len(d.args) > 3 {
		c.try(out, r, l, d)
		return
	}
	r.set("try_files", "front")
	if front != "/index.php" {
		r.set("front", front)
	}
}

// front returns a target of try_files as the key front has it: a script below the route's prefix,
// with a query. The client's query goes on in any case.
func (c *converter) front(s *scope, target, prefix string) (string, bool) {
	target = queries.Replace(target)
	target = strings.NewReplacer("$uri", "{path}", "$document_uri", "{path}",
		"$request_uri", "{path}").Replace(target)
	target = strings.TrimSuffix(strings.ReplaceAll(target, "{query}", ""), "?")
	if !strings.HasPrefix(target, prefix+"/") {
		return "", false
	}
	target = target[len(prefix):]
	script, _, _ := strings.Cut(target, "?")
	script, _, _ = strings.Cut(script, "{")
	if !strings.HasSuffix(script, ".php") || strings.Contains(target, "$") {
		return "", false
	}
	return target, true
}

// fastcgi makes a route of a location with fastcgi_pass that has no files beside it.
func (c *converter) fastcgi(r *route, l *location) bool {
	pass := l.scope.take("fastcgi_pass")[0]
	r.set("module", "fastcgi")
	if !c.gatewayAddress(r, pass, "fastcgi") {
		return false
	}
	root := "/"
	if d := l.scope.last("root"); d != nil && !strings.Contains(d.arg(0), "$") {
		root = c.prefixPath(d.arg(0))
	}
	prefix := strings.TrimSuffix(r.get("prefix").(string), "/")
	script := ""
	for _, d := range l.scope.find("fastcgi_param") {
		if d.arg(0) == "SCRIPT_FILENAME" {
			script = d.arg(1)
		}
	}
	patterns, isPHP := l.scripts()
	texts, _, spelt := literals(l.uri, l.mod == "~*")
	if l.mod == "=" {
		texts, spelt = []string{l.uri}, true
	}
	switch {
	case strings.HasPrefix(script, "/") && !strings.Contains(script, "$"):
		// One program for all paths.
		r.set("script_path", filepath.Dir(script))
		r.set("index", []string{})
		if ext := filepath.Ext(script); ext != ".php" {
			r.set("split_path", filepath.Base(script))
		}
		r.set("scripts", []string{"/" + filepath.Base(script)})
		r.set("try_files", "front")
		r.set("front", "/"+filepath.Base(script)+"{path}")
		c.say(pass, differs, "files beside the program are sent by their names")
	case isPHP:
		r.set("script_path", filepath.Join(root, prefix))
		r.set("try_files", "off")
		if len(patterns) > 0 {
			c.listed(r, l, patterns)
		}
	case spelt && allScripts(texts):
		// Scripts by their names: the prefix is their folder.
		r.set("script_path", root)
		if l.mod == "=" {
			r.drop("exact")
			r.set("prefix", "/")
			r.set("regexp", "^"+quoteRegexp(l.uri)+"$")
		}
		c.listed(r, l, texts)
		r.set("try_files", "off")
	case spelt && l.mod != "":
		// Pages of PHP-FPM itself, which are no files.
		if l.mod == "=" {
			r.drop("exact")
			r.set("prefix", "/")
			r.set("regexp", "^"+quoteRegexp(l.uri)+"$")
		}
		r.set("script_path", "/")
		r.set("check_file", false)
		var names []string
		for _, t := range texts {
			names = append(names, filepath.Base(t))
		}
		r.set("split_path", names)
		r.set("scripts", texts)
		r.set("try_files", "off")
	default:
		// Programs of CGI by fcgiwrap, or one application for all paths.
		r.set("script_path", filepath.Join(root, prefix))
		r.set("split_path", []string{".cgi", ".pl", ".py", ".sh", ".php"})
		r.set("try_files", "off")
		c.left(pass, "the module fastcgi runs scripts that it knows by their endings: split_path; an "+
			"application for all paths takes try_files = \"front\" with front, see its README.md")
	}
	scriptPath, _ := r.get("script_path").(string)
	c.gateway(r, l.scope, "fastcgi", scriptPath)
	c.gatewayLogic(l)
	return true
}

func allScripts(texts []string) bool {
	return !slices.ContainsFunc(texts, func(t string) bool { return !strings.HasSuffix(t, ".php") })
}

// gatewayLogic passes over what a location of scripts does by nginx's usual means.
func (c *converter) gatewayLogic(l *location) {
	for _, d := range l.scope.take("try_files", "fastcgi_split_path_info", "fastcgi_index",
		"include") {
		c.say(d, byItself, "the module fastcgi finds scripts so")
	}
	for _, d := range l.scope.take("if") {
		if strings.Contains(d.arg(0)+d.arg(1)+d.arg(2), "$document_root$fastcgi_script_name") {
			c.say(d, byItself, "a script has to exist")
			c.leftAll(d.block, byItself, "a script has to exist")
		} else {
			d.done = false
		}
	}
	for _, d := range l.scope.own("set") {
		if strings.Contains(d.arg(1), "$fastcgi_path_info") {
			c.say(d, byItself, "PATH_INFO is what follows the script's name")
		}
	}
}

// uwsgi makes a route of a location with uwsgi_pass or scgi_pass.
func (c *converter) uwsgi(r *route, l *location, module string) bool {
	r.set("module", module)
	if !c.gatewayAddress(r, l.scope.take(module + "_pass")[0], module) {
		return false
	}
	for _, key := range []string{"modifier1", "modifier2"} {
		if d := l.scope.last("uwsgi_" + key); d != nil && module == "uwsgi" && d.arg(0) != "0" {
			r.set(key, number(d.arg(0)))
		}
	}
	if d := l.scope.last("uwsgi_buffer_size"); d != nil {
		c.say(d, byItself, "that is the answer's; buffer_size is uWSGI's own buffer-size")
	}
	for _, d := range l.scope.take("include") {
		c.say(d, byItself, "the module sets these variables")
	}
	c.gateway(r, l.scope, module, "")
	return true
}

// gatewayAddress sets the address or the upstream of a route.
func (c *converter) gatewayAddress(r *route, pass *directive, module string) bool {
	pass.done = true
	a := pass.arg(0)
	if value, err := c.text(r.from.scope, a, nil); err == nil && !strings.Contains(value, "{") {
		a = value
	}
	if strings.Contains(a, "$") {
		c.left(pass, "an address has no variables")
		return false
	}
	a = strings.TrimPrefix(strings.TrimPrefix(a, "uwsgi://"), "suwsgi://")
	if g := c.groups[a]; g != nil {
		r.set("upstream", c.use(g, module, "", ""))
		return true
	}
	r.set("address", c.address(a, "", ""))
	return true
}

// standardParams are parameters that the modules set by themselves.
var standardParams = []string{"QUERY_STRING", "REQUEST_METHOD", "CONTENT_TYPE", "CONTENT_LENGTH",
	"SCRIPT_NAME", "REQUEST_URI", "DOCUMENT_URI", "DOCUMENT_ROOT", "SERVER_PROTOCOL",
	"REQUEST_SCHEME", "GATEWAY_INTERFACE", "SERVER_SOFTWARE", "REMOTE_ADDR", "REMOTE_PORT",
	"SERVER_ADDR", "SERVER_PORT", "SERVER_NAME", "REDIRECT_STATUS", "PATH_INFO", "PATH_TRANSLATED",
	"REMOTE_USER", "AUTH_TYPE", "HTTP_PROXY", "SCRIPT_FILENAME", "HTTP_HOST"}

// gateway sets the keys that the modules for applications share.
func (c *converter) gateway(r *route, s *scope, module, folder string) {
	params := new(table)
	for _, d := range s.find(module + "_param") {
		name, value := d.arg(0), d.arg(1)
		switch {
		case name == "SCRIPT_FILENAME" || name == "DOCUMENT_ROOT":
			c.scriptRoot(r, d, value, folder)
		case slices.Contains(standardParams, name), name == "HTTPS" && strings.HasPrefix(value, "$https"):
			c.say(d, byItself, "the module sets it")
		default:
			text, err := c.text(s, value, nil)
			if err != nil {
				c.left(d, err.Error())
				continue
			}
			if d.arg(2) == "if_not_empty" && text == "" {
				continue
			}
			params.set(name, text)
		}
	}
	if !params.empty() {
		r.set("params", params)
	}
	c.transport(r, s, module)
	if d := s.last(module + "_keep_conn"); d != nil && d.arg(0) == "on" {
		r.set("keep_conn", true)
	}
}

// scriptRoot sets what the application calls the folder of its scripts.
func (c *converter) scriptRoot(r *route, d *directive, value, folder string) {
	switch {
	case strings.HasPrefix(value, "$realpath_root"):
		r.set("resolve_root", true)
	case strings.HasPrefix(value, "$"), r.get("front") != nil && !strings.Contains(value, "$"):
	default:
		root, _, found := strings.Cut(value, "$")
		if d.arg(0) == "DOCUMENT_ROOT" {
			found = true
		}
		root = strings.TrimSuffix(root, "/")
		if root != "" && !r.from.scope.has("alias") {
			root = filepath.Join(root, r.get("prefix").(string)) // the folder is that of the prefix
		}
		if found && root != "" && root != folder {
			r.set("root", root)
		}
	}
}
