package config_test

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/internal/base/settings"
	"github.com/lwango/lwango/internal/process/config"
	"github.com/lwango/lwango/internal/process/server"
	"github.com/lwango/lwango/internal/test/logtext"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/pubsub/redis"
)

func source() config.Source {
	return config.Source{Modules: config.Builtin(), Broker: redis.Broker,
		Logger: logtext.Quiet}
}

// route makes the smallest configuration around the lines of a route, which begin on line 3.
func route(lines string) string { return "[[site]]\n[[site.route]]\n" + lines }

// TestNoBroker: a program that has no broker says how it gets one.
func TestNoBroker(t *testing.T) {
	s := source()
	s.Broker = nil
	_, err := s.Parse("t.conf", "[pubsub]\nurl = \"redis://u:secret@host:6379\"")
	want := "t.conf:2: pubsub.url: this program has no broker; " +
		"it gets one by a call of lwango.UseBroker(redis.Broker), of package pubsub/redis"
	if fmt.Sprint(err) != want {
		t.Errorf("%v\nwant %s", err, want)
	}
	if _, err := s.Parse("t.conf", "[pubsub]\nmax_bytes = \"1MiB\""); err != nil {
		t.Error(err)
	}
}

func TestConfigErrors(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"the design's example", "\nkeep_alive_timout = \"15s\"",
			`t.conf:2: keep_alive_timout: unknown key (did you mean keep_alive_timeout?)`},
		{"zero timeouts",
			"keep_alive_timeout = \"0s\"\nheader_timeout = \"0s\"\nbody_timeout = \"0s\"\nwrite_timeout = " +
				"\"0s\"",
			`t.conf:1: keep_alive_timeout: must be between 1ms and 24h, found 0s
t.conf:2: header_timeout: must be between 1ms and 24h, found 0s
t.conf:3: body_timeout: must be between 1ms and 24h, found 0s
t.conf:4: write_timeout: must be between 1ms and 24h, found 0s`},
		{"seconds as a number", "grace = 5",
			`t.conf:1: grace: expected a duration such as "15s", found the integer 5 (for seconds write "5s")`},
		{"ranges",
			"min_rate = -2\nmax_connections = -2\nmax_header_size = 100\nmax_body_size = -2\nwatchdog = " +
				"\"-1s\"\nthreads = 5000",
			`t.conf:1: min_rate: must be between -1 and 1000000000, found -2
t.conf:2: max_connections: must be between -1 and 100000000, found -2
t.conf:3: max_header_size: must be between 1KiB and 16MiB, found 100B
t.conf:4: max_body_size: must be between -1 and 1TiB, found -2B
t.conf:5: watchdog: must be between -1 and 1h, found -1s
t.conf:6: threads: must be between 0 and 1024, found 5000`},
		{"spool", "max_body_size = \"1GiB\"\nmax_spool = \"100MiB\"\nspool_dir = \"none\"",
			`t.conf:2: max_spool: must be at least max_body_size, which is 1GiB, or -1, for no limit; found 100MiB
t.conf:3: spool_dir: create a file in DIR/none: no such file or directory`},
		{"spool in a file", "spool_dir = \"/dev/null\"\nmax_connections_per_address = -2",
			`t.conf:1: spool_dir: create a file in /dev/null: not a directory
t.conf:2: max_connections_per_address: must be between -1 and 100000000, found -2`},
		{"a hasty watchdog", "watchdog = \"100us\"",
			`t.conf:1: watchdog: must be at least 1ms, or -1, which is no limit`},
		{"no grace", "grace = \"0s\"", `t.conf:1: grace: must be at least 1ms, or -1, which is no limit`},
		{"less than none", "drain = \"-1m\"", `t.conf:1: drain: must be between -1 and 24h, found -1m`},
		{"none is not for all", "header_timeout = -1",
			`t.conf:1: header_timeout: expected a duration such as "15s", found the integer -1`},
		{"handoff", "handoff = \"iter\"",
			`t.conf:1: handoff: expected "channel" or "direct", found "iter"`},

		{"header fields",
			"[headers]\n\"a b\" = \"x\"\nok = \"x\"\nContent-Length = \"1\"\nx = [\"a\", \"b\\nc\"]\n",
			`t.conf:2: headers."a b": not a valid name of a header field
t.conf:4: headers.Content-Length: is set by the server itself
t.conf:5: headers.x: control characters cannot be part of a header field`},
		{"a key below [headers]", "[headers]\nserver = \"x\"\nwrite_timeout = \"1s\"",
			`t.conf:3: headers.write_timeout: belongs at the top of the file, above the first [table]`},

		{"headers of a site", "[[site]]\nhost = \"a\"\n[site.headers]\nx = \"y\"",
			`t.conf:3: site.headers: unknown key (it is the whole file's: write [headers])`},
		{"headers of a route", route("prefix = \"/\"\nhandler = \"echo\"\nheaders = { x = \"y\" }"),
			`t.conf:5: site.route.headers: unknown key (it is the whole file's: write [headers])`},
		{"a listener of a site", "[[site]]\n[[site.listener]]\naddress = \"*:80\"",
			`t.conf:2: site.listener: expected a string, found a table`},
		{"sites at listeners",
			"[[listener]]\nname = \"plain\"\naddress = \"*:80\"\n[[listener]]\nname = \"plain\"\naddress " +
				"= \"*:81\"\n" +
				"[[listener]]\nname = \"\"\naddress = \"*:82\"\n" +
				"[[site]]\nhost = \"a\"\nlistener = \"pain\"\n[[site]]\nhost = \"a\"\n[[site]]\nhost = " +
				"\"a\"\nlistener = [\n\"plain\",\n\"x\"]\n" +
				"[[site]]\nhost = \"a\"\nlistener = \"plain\"\n[[site]]\nlistener = []\n[[site]]\nscheme = " +
				"\"https\"\n[[site]]\nhost = \"z\"\nscheme = \"ftp\"",
			`t.conf:5: listener.name: "plain": another listener has that name
t.conf:8: listener.name: expected a name, by which sites can choose the listener
t.conf:12: site.listener: there is no listener "pain" (did you mean plain?)
t.conf:17: site.listener: there is no listener "x" (known: plain, plain)
t.conf:21: site.host: "a": named twice, for the same listener or scheme
t.conf:24: site.listener: expected at least one name; leave it out for all listeners
t.conf:26: site.scheme: no listener of the site has tls or trusted_proxies, so no request is an https one
t.conf:29: site.scheme: expected "http" or "https", found "ftp"`},
		{"a listener twice",
			"[[listener]]\nname = \"a\"\naddress = \"*:80\"\n[[site]]\nhost = \"h\"\nlistener = [\"a\", " +
				"\"a\"]\n" +
				"[[site]]\nlistener = [\"b\",\"b\"]", `t.conf:6: site.listener: "a": named twice
t.conf:8: site.listener: "b": named twice
t.conf:8: site.listener: there is no listener "b" (did you mean a?)`},
		{"no listener has a name", "[[site]]\nlistener = \"plain\"",
			`t.conf:2: site.listener: there is no listener "plain": none has a name`},
		{"no https address", "[[site]]\nhttps = \"redirect\"",
			`t.conf:2: site.https: there is no listener with tls, and none with trusted_proxies, so there is no https address`},
		{"another word", "[[site]]\nhttps = \"yes\"",
			`t.conf:2: site.https: expected "redirect", found "yes"`},
		{"hsts", "[[site]]\nhsts = {}\n[[site]]\nhost = \"a\"\nhsts = { max_age = 5 }",
			`t.conf:2: site.hsts: expected a max_age, as in { max_age = "8760h" }, which is a year
t.conf:5: site.hsts: expected a max_age, as in { max_age = "8760h" }, which is a year
t.conf:5: site.hsts.max_age: expected a duration such as "15s", found the integer 5 (for seconds write "5s")`},
		{"browsers", "[[site]]\nsecurity_headers = \"usual\"\ncsrf = true\n[site.cors]\n" +
			"origins = [\"*\"]\n[[site.route]]\nprefix = \"/\"\nhandler = \"echo\"\n" +
			"security_headers = \"strict\"\ncsrf = false\ncors = { origins = \"https://a\" }\n" +
			"[[site]]\nhost = \"a\"\nsecurity_headers = \"x\"\ncsrf = { trusted = \"a\" }\n" +
			"cors = { origins = \"*\", credentials = true, max_age = \"1ms\" }",
			`t.conf:9: site.route.security_headers: the site has the key, too, for all its routes; expected it at the site or at routes
t.conf:10: site.route.csrf: the site has the key, too, for all its routes; expected it at the site or at routes alone, and bypass for the paths that are no part of it
t.conf:11: site.route.cors: the site has the key, too, for all its routes; expected it at the site or at routes
t.conf:14: site.security_headers: expected "usual" or "strict", found "x"
t.conf:15: site.csrf.trusted: "a": there is no scheme; expected an origin such as "https://app.example.org", "http://localhost:3000" or "https://*.example.org"
t.conf:16: site.cors.max_age: must be between 1s and 24h, found 1ms
t.conf:16: site.cors.origins: "*" beside credentials would let every page act as the user; name the origins`},
		{"proxies",
			"[[listener]]\naddress = \"*:80\"\ntrusted_proxies = [\"10.0.0.0/8\", \"10.0.0.1/8\", \"x\", " +
				"\"unix:/s\", \"::1\", \"::ffff:10.0.0.0/104\"]\n" +
				"[[listener]]\naddress = \"*:81\"\nproxy_protocol = true\n[[listener]]\naddress = " +
				"\"*:82\"\nproxy_fields = \"forwarded\"\n" +
				"[[listener]]\naddress = \"*:83\"\ntrusted_proxies = []\n[[listener]]\naddress = " +
				"\"*:84\"\ntrusted_proxies = \"unix:\"\nproxy_fields = \"x\"",
			`t.conf:3: listener.trusted_proxies: "10.0.0.1/8" is no network: that one begins at 10.0.0.0/8
t.conf:3: listener.trusted_proxies: expected a network or an address, such as "10.0.0.0/8", "2001:db8::/32" or "192.0.2.7", or "unix:", found "unix:/s"
t.conf:3: listener.trusted_proxies: expected a network or an address, such as "10.0.0.0/8", "2001:db8::/32" or "192.0.2.7", or "unix:", found "x"
t.conf:6: listener.proxy_protocol: needs trusted_proxies, since anyone else could name any address as the client's
t.conf:9: listener.proxy_fields: needs trusted_proxies: no other peer is believed
t.conf:12: listener.trusted_proxies: expected at least one network, such as "10.0.0.0/8", or "unix:"
t.conf:16: listener.proxy_fields: expected "x-forwarded" or "forwarded" or "x-real-ip", found "x"`},
		{"a placeholder of other servers",
			route("prefix = \"/\"\nmodule = \"redirect\"\nto = \"https://a$request_uri\""),
			`t.conf:5: site.route.to: "https://a$request_uri": unknown placeholder $request_uri (known: {path}, {uri}, {query}, {host}; a $ itself is written %24)`},

		{"mode of a UNIX socket", "[[listener]]\naddress = \"unix:s\"\nmode = \"660x\"",
			`t.conf:3: listener.mode: expected permissions in octal, such as "0660", found "660x"`},
		{"owner of a UNIX socket", "[[listener]]\naddress = \"unix:s\"\nowner = \"nobody-of-this-name:\"",
			`t.conf:3: listener.owner: there is no user "nobody-of-this-name"`},
		{"group of a UNIX socket", "[[listener]]\naddress = \"unix:s\"\nowner = \":nobody-of-this-name\"",
			`t.conf:3: listener.owner: there is no group "nobody-of-this-name"`},
		{"neither", "[[listener]]\naddress = \"unix:s\"\nowner = \":\"",
			`t.conf:3: listener.owner: expected "user:group", "user" or ":group", found ":"`},
		{"mode of a port", "[[listener]]\naddress = \"*:80\"\nmode = \"0660\"\nowner = \"root\"",
			`t.conf:3: listener.mode: is for the file of a unix: address
t.conf:4: listener.owner: is for the file of a unix: address`},

		{"listener without address", "[[listener]]\n",
			`t.conf:1: listener.address: missing; expected something like "*:8080"`},
		{"listener twice", "[[listener]]\naddress = \":80\"\n[[listener]]\naddress = \"*:80\"",
			`t.conf:4: listener.address: *:80 is listened to twice`},
		{"no address", "[[listener]]\naddress = \"80\"",
			`t.conf:2: listener.address: expected host:port, found "80" (for port 80 of all addresses write "*:80")`},
		{"certificate",
			"[[listener]]\naddress = \"*:443\"\ntls = { cert = \"none.pem\", key = \"none.pem\" }",
			`t.conf:3: listener.tls: open DIR/none.pem: no such file or directory`},
		{"access log", "[access_log]\nformat = \"jsn\"",
			`t.conf:1: access_log.path: missing; expected the path of a file
t.conf:2: access_log.format: expected "combined", "common", "json" or a text with placeholders (known: ` +
				`{bytes}, {bytes_in}, {cache}, {cert_fingerprint}, {cert_subject}, {cert_verify}, {close}, {duration}, {host}, {method}, {proto}, {referer}, {remote}, {request}, ` +
				`{request_id}, {scheme}, {status}, {target}, {time}, {time_iso8601}, {tls_cipher}, {tls_version}, {upstream}, {upstream_address}, {upstream_connect}, ` +
				`{upstream_first_byte}, {upstream_split}, {upstream_time}, {upstream_tries}, {user}, {user_agent}, {answer.*}, {uri}, {query}, {path}, {rest}, {prefix}, {port}, {address}, {id}, {cert_issuer}, {cert_serial}, {field.*}, {cookie.*}, {query.*}), found "jsn"`},
		{"places of access logs",
			"[access_log]\npath = \"stderr:x\"\n[[site]]\nhost = \"a\"\n[site.access_log]\npath = " +
				"\"syslog:host\"\n" +
				"[[site]]\nhost = \"b\"\n[site.access_log]\npath = \"syslog:unix:\"\n[[site]]\nhost = " +
				"\"c\"\n[site.access_log]\npath = \"journald:x\"\n" +
				"[[site]]\nhost = \"d\"\n[site.access_log]\npath = \"syslog:h:99999\"\n[[site]]\nhost = " +
				"\"e\"\n[site.access_log]\npath = \"\"",
			`t.conf:2: access_log.path: expected "stderr:" alone, found "stderr:x"
t.conf:6: site.access_log.path: expected "syslog:", "syslog:unix:/path/of/a/socket" or "syslog:host:port", found "syslog:host"
t.conf:10: site.access_log.path: expected a path behind unix:
t.conf:14: site.access_log.path: expected "journald:" or "journald:unix:/path/of/a/socket", found "journald:x"
t.conf:18: site.access_log.path: expected "syslog:", "syslog:unix:/path/of/a/socket" or "syslog:host:port", found "syslog:h:99999"
t.conf:22: site.access_log.path: missing; expected the path of a file`},
		{"access log of a site alone", "[[site]]\nhost = \"a\"\n[site.access_log]\nformat = \"json\"",
			`t.conf:3: site.access_log.path: missing; expected the path of a file`},

		{"error log", "[error_log]\nformat = \"jsn\"\npath = \"none/x\"",
			`t.conf:2: error_log.format: expected "text" or "json", found "jsn"
t.conf:3: error_log.path: there is no folder DIR/none`},

		{"access logs that are true",
			"access_log = true\n[[site]]\nhost = \"a\"\naccess_log = true\n[[site.route]]\nprefix = \"/\"\n" +
				"handler = \"echo\"\naccess_log = true\n[[stream]]\naddress = \"*:1\"\naccess_log = true\n" +
				"[[stream.route]]\naddress = \"127.0.0.1:9\"",
			`t.conf:1: access_log: true stands for the keys of the log further out, and there is none; expected a table, or false`},
		{"access log of a stream with keys for requests", "[[stream]]\naddress = \"*:1\"\naccess_log = " +
			"{ path = \"a\", if = \"{host}\" }\n[[stream.route]]\naddress = \"127.0.0.1:9\"",
			`t.conf:3: stream.access_log.if: is for requests; a stream has connections`},
		{"access log in no folder", "[access_log]\npath = \"none/log\"",
			`t.conf:2: access_log.path: there is no folder DIR/none`},

		{"time of no status",
			"[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"proxy\"\naddress = " +
				"\"127.0.0.1:1\"\ncache = { ttl = { 9 = \"1s\" } }",
			`t.conf:6: site.route.cache.ttl: expected a status such as "200", or "any", not "9"`},
		{"time of a part",
			"[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"proxy\"\naddress = " +
				"\"127.0.0.1:1\"\ncache = { ttl = { 206 = \"1s\" } }",
			`t.conf:6: site.route.cache.ttl: answers with the status 206 are never kept`},
		{"size of no folder", "[cache]\ndisk_size = \"2GiB\"",
			`t.conf:2: cache.disk_size: it has no effect without disk`},
		{"bypass of all",
			"[[site]]\n[[site.route]]\nprefix = \"/\"\nmodule = \"proxy\"\naddress = " +
				"\"127.0.0.1:1\"\ncache = { bypass = [{}] }",
			`t.conf:6: site.route.cache.bypass: has no conditions, and so would be true of all requests`},

		{"access log that is a folder", "[access_log]\npath = \"/\"",
			`t.conf:2: access_log.path: open /: is a directory`},

		{"access log as a string", "access_log = \"a.log\"",
			`t.conf:1: access_log: expected a table, true or false, found the string "a.log"`},
		{"TLS settings without TLS",
			"[[listener]]\naddress = \"*:443\"\nmin_version = \"1.3\"\nclient_ca = \"x\"\nstrict_sni = true",
			`t.conf:3: listener.min_version: needs the key tls beside it
t.conf:4: listener.client_ca: needs the key tls beside it
t.conf:5: listener.strict_sni: needs the key tls beside it`},
		{"version of TLS", "[[listener]]\naddress = \"*:443\"\nmin_version = \"1.1\"\ntls = {}",
			`t.conf:3: listener.min_version: expected "1.2" or "1.3", found "1.1"
t.conf:4: listener.tls: expected both cert and key, paths of PEM files, or acme = true`},
		{"authorities", "[[listener]]\naddress = \"*:443\"\nclient_ca = \"none.pem\"\ntls = {}",
			`t.conf:3: listener.client_ca: open DIR/none.pem: no such file or directory
t.conf:4: listener.tls: expected both cert and key, paths of PEM files, or acme = true`},
		{"certificates as strings", "[[listener]]\naddress = \"*:443\"\ntls = [\"a.pem\", \"b.pem\"]",
			`t.conf:3: listener.tls: expected a table, true or false, found the string "a.pem"
t.conf:3: listener.tls: expected a table, true or false, found the string "b.pem"`},
		{"routes as strings", "[[site]]\nroute = [\"/\"]",
			`t.conf:2: site.route: expected a table, found the string "/"`},
		{"a prefix of a wrong type", route("prefix = 1\nhandler = \"echo\""),
			`t.conf:3: site.route.prefix: expected a string, found the integer 1`},
		{"broker", "[pubsub]\nurl = \"localhost:6379\"",
			`t.conf:2: pubsub.url: no host; expected something like redis://user:password@host:6379/0`},
		{"broker of another kind", "[pubsub]\nurl = \"amqp://u:secret@host\"",
			`t.conf:2: pubsub.url: invalid URL scheme: amqp; expected something like redis://user:password@host:6379/0`},
		{"broker, a slip in the password", "[pubsub]\nurl = \"redis://u:secret%zz@host:6379\"",
			`t.conf:2: pubsub.url: not a URL; expected something like redis://user:password@host:6379/0`},
		{"broker's port", "[pubsub]\nurl = \"redis://u:sec/ret@host:6379\"",
			`t.conf:2: pubsub.url: not a URL; expected something like redis://user:password@host:6379/0`},
		{"broker, a password cut by its slash", "[pubsub]\nurl = \"redis://u:1/secret@host:6379\"",
			`t.conf:2: pubsub.url: a /, ? or # in a password is written %2F, %3F or %23; expected something like redis://user:password@host:6379/0`},
		{"broker's database", "[pubsub]\nurl = \"redis://u:secret@host:6379/chat\"",
			`t.conf:2: pubsub.url: invalid database number: "chat"; expected something like redis://user:password@host:6379/0`},
		{"too little for topics", "[pubsub]\nmax_bytes = \"64KiB\"",
			`t.conf:2: pubsub.max_bytes: must be between 1MiB and 1TiB, found 64KiB`},
		{"an OCSP response", "[[listener]]\naddress = \"*:443\"\ntls = { ocsp = \"a.ocsp\" }",
			`t.conf:3: listener.tls: expected both cert and key, paths of PEM files, or acme = true
t.conf:3: listener.tls.ocsp: there is no such key any more: responses are not stapled any ` +
				"more, as authorities have ended OCSP; remove it"},
		{"another root folder", "[confine]\nuser = \"65534\"\ngroup = \"65534\"\nchroot = \"/srv\"",
			`t.conf:4: confine.chroot: there is no such key any more: landlock leaves the files that ` +
				"the configuration names, and RootDirectory= of a systemd unit or a container gives a " +
				"process another root folder; remove it"},
		{"unknown key of the broker", "[pubsub]\nuri = \"redis://host\"",
			`t.conf:2: pubsub.uri: unknown key (did you mean url?)`},

		{"route without prefix", route("handler = \"echo\""),
			`t.conf:2: site.route.prefix: missing; expected the beginning of a path, such as "/"`},
		{"route without handler", route("prefix = \"/\""),
			`t.conf:2: site.route: a route needs a module or a handler`},
		{"route with both", route("prefix = \"/\"\nmodule = \"response\"\nhandler = \"echo\""),
			`t.conf:5: site.route.handler: a route has a module or a handler, not both`},
		{"unknown handler", route("prefix = \"/\"\nhandler = \"eco\""),
			`t.conf:4: site.route.handler: there is no handler "eco" (did you mean echo?)`},
		{"unknown module", route("prefix = \"/\"\nmodule = \"cgi-bin\""),
			`t.conf:4: site.route.module: there is no module "cgi-bin" (known: ` +
				strings.Join(config.Builtin().ModuleNames(), ", ") + `)`},
		{"key of a module", route("prefix = \"/\"\nmodule = \"redirect\"\ntoo = \"/x\"\nprefixx = 1"),
			`t.conf:5: site.route.too: unknown key (did you mean to?)
t.conf:6: site.route.prefixx: unknown key (did you mean prefix?)`},
		{"sizes of a module",
			route("prefix = \"/\"\nmodule = \"fastcgi\"\naddress = \"unix:/s\"\nscript_path = \".\"\n" +
				"max_body_size = 1000\nmax_header_size = 512\nresponse_buffering = \"1k\""),
			`t.conf:8: site.route.max_header_size: must be between 1KiB and 16MiB, found 512B
t.conf:9: site.route.response_buffering: unknown unit "k": write one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB`},
		{"type in a module", route("prefix = \"/\"\nmodule = \"redirect\"\nto = 1"),
			`t.conf:5: site.route.to: expected a string, found the integer 1`},
		{"value in a module", route("prefix = \"/\"\nmodule = \"redirect\"\nto = \"/\"\nstatus = 200"),
			`t.conf:6: site.route.status: expected 301, 302, 303, 307 or 308, not 200`},
		{"key for a handler", route("prefix = \"/\"\nhandler = \"echo\"\nfolder = \"x\""),
			`t.conf:5: site.route.folder: unknown key`},
		{"auth", "[[site]]\nauth = {}\n[[site.route]]\nprefix = \"/\"\nhandler = \"echo\"\n" +
			"auth = { realm = \"x\", htpasswd = \"none\" }\n[[site.route]]\nprefix = \"/x\"\nhandler = " +
			"\"echo\"\n" +
			"[site.route.auth]\nhtpasswd = 3\nuser = \"x\"",
			`t.conf:2: site.auth.htpasswd: missing; expected the path of a file
t.conf:6: site.route.auth.htpasswd: open DIR/none: no such file or directory
t.conf:11: site.route.auth.htpasswd: expected a string, found the integer 3
t.conf:12: site.route.auth.user: unknown key (known here: answer_headers, cache, cache_by, copy_headers, htpasswd, jwt, login, realm, request, request_headers, user_header, whole_answer)`},
		{"limit",
			"[[site]]\nlimit = { requests = \"10\", burst = 0 }\n[[site.route]]\nprefix = \"/\"\nhandler " +
				"= \"echo\"\n" +
				"limit = { allow = [\"10.0.0.1/8\"], methods = [\"BREW\"] }\n[[site.route]]\nprefix = " +
				"\"/x\"\nhandler = \"echo\"\n" +
				"[site.route.limit]\nmethods = []\nmax_body_size = \"1k\"",
			`t.conf:2: site.limit.burst: must be between 1 and 1000000, found 0
t.conf:2: site.limit.requests: expected 1 to 1000000 requests in a second, a minute or an hour, such as "10/s", "100/m" or "1000/h", found "10"
t.conf:6: site.route.limit.allow: "10.0.0.1/8" is no network: that one begins at 10.0.0.0/8
t.conf:11: site.route.limit.methods: expected at least one, such as GET
t.conf:12: site.route.limit.max_body_size: unknown unit "k": write one of B, KiB, MiB, GiB, TiB, kB, MB, GB, TB`},
		{"no limit", "[[site]]\nlimit = {}\n[[site]]\nhost = \"a.example\"\nlimit = { allow = [] }",
			`t.conf:2: site.limit.requests: missing; expected at least one limit, such as requests = "10/s"
t.conf:5: site.limit.allow: expected at least one network`},
		{"a limit that max_spool has no room for",
			"max_spool = \"1GiB\"\n[[site]]\nlimit = { max_body_size = \"2GiB\" }",
			`t.conf:1: max_spool: must be at least max_body_size, which is 2GiB, or -1, for no limit; found 1GiB`},
		{"prefixes", route("prefix = \"x\"\nhandler = \"echo\"") +
			"\n[[site.route]]\nprefix = \"/a//b\"\nhandler = \"echo\"\n[[site.route]]\nprefix = " +
			"\"/a\"\nhandler = \"echo\"\n" +
			"[[site.route]]\nprefix = \"/a/\"\nhandler = \"echo\"",
			`t.conf:3: site.route.prefix: "x" does not begin with a slash
t.conf:6: site.route.prefix: "/a//b" has an empty segment, which no cleaned path has
t.conf:12: site.route.prefix: "/a/": named twice`},
		{"error pages", "[[site]]\nerror_pages = { 404 = \"/a?b\" }\n[[site.route]]\nprefix = \"/x\"\n" +
			"handler = \"echo\"\nerror_pages = { 200 = \"/x/a\" }",
			`t.conf:2: site.error_pages: 404: expected the path of a route, without a query, not "/a?b"
t.conf:6: site.route.error_pages: expected a status from 400 to 599, not "200"`},
		{"keys of other tables",
			"[[site]]\nmin_version = \"1.3\"\n[[site.rule]]\naccess_log = { path = \"a\" }\n" +
				"grace = \"1s\"\n[site.limit]\nallow = \"10.0.0.0/8\"\nheaders = { a = \"b\" }",
			`t.conf:2: site.min_version: unknown key (it is a key of [[listener]] and [[stream]])
t.conf:4: site.rule.access_log: unknown key (it is a key of [[stream]] and [[site]] and, with another meaning, of the whole file)
t.conf:5: site.rule.grace: unknown key (grace belongs at the top of the file, above the first [table])
t.conf:8: site.limit.headers: unknown key (it is the whole file's: write [headers])`},
		{"keys of other tables, in large ones",
			"[[site]]\naddress = \"*:80\"\n[[site.route]]\nprefix = \"/\"\nmodule = \"proxy\"\n" +
				"address = \"127.0.0.1:1\"\naccess_log = { path = \"a\" }\nhttps = \"redirect\"",
			`t.conf:2: site.address: unknown key (it is a key of [[listener]], [debug], [[upstream]] and [[stream]])
t.conf:8: site.route.https: unknown key (it is a key of [[site]])`},
		// Keys that contradict each other.
		{"https on a site of https",
			"[[listener]]\naddress = \"*:1\"\ntrusted_proxies = \"unix:\"\n[[site]]\n" +
				"scheme = \"https\"\nhttps = \"redirect\"",
			`t.conf:6: site.https: has no effect beside scheme = "https": the requests that it is for get to another site; a [[site]] of that host with scheme = "http" has it`},
		{"hsts on a site of http",
			"[[listener]]\naddress = \"*:1\"\ntrusted_proxies = \"unix:\"\n[[site]]\n" +
				"scheme = \"http\"\nhsts = { max_age = \"1h\" }",
			`t.conf:6: site.hsts: has no effect beside scheme = "http": browsers heed it in answers of https alone (RFC 6797 section 7.2)`},
		{"hsts without https", "[[site]]\nhsts = { max_age = \"1h\" }",
			`t.conf:2: site.hsts: there is no listener with tls, and none with trusted_proxies, so no answer of https has it`},
		{"precompressed without compression",
			"compression = false\n[[site]]\n[[site.route]]\nprefix = \"/\"\n" +
				"module = \"serve_files\"\npath = \".\"\nprecompressed = true\n[[site.route]]\nprefix = " +
				"\"/a\"\n" +
				"module = \"serve_files\"\npath = \".\"\n[[site.route]]\nprefix = \"/b\"\nmodule = " +
				"\"serve_files\"\n" +
				"path = \".\"\nprecompressed = true\ncompression = true",
			`t.conf:7: site.route.precompressed: has no effect with compression = false; encodings = [...] of a table compression says which of them are sent`},
		{"maps in a circle", "[[map]]\nname = \"a\"\nfrom = \"{b}\"\nvalues = { x = \"y\", \"~z\" = \"\" }\n" +
			"[[map]]\nname = \"b\"\nfrom = \"{host}\"\nvalues = { x = \"{a}\" }\n" +
			"[[map]]\nname = \"status\"\n[access_log]\npath = \"-\"\nformat = \"{a}{b}\"\n[[site]]\n" +
			"[[site.rule]]\nredirect = \"{a}\"\n[[site.route]]\nprefix = \"/\"\nmodule = \"proxy\"\n" +
			"address = \"127.0.0.1:1\"\nrequest_headers = { x = \"{b}\" }\n" +
			"cache = { key = \"{a}\" }\nlimit = { requests = \"1/s\", by = \"{b}\" }",
			`t.conf:2: map.name: map a: the map needs itself: a needs b needs a
t.conf:4: map.values."~z": map a: an expression stands in regexps = [{ regexp = "z", value = "" }]
t.conf:10: map.name: map status: {status} is a placeholder already`},
		{"a network that is allowed and denied",
			"[[site]]\nlimit = { allow = [\"10.1.0.0/16\", \"192.0.2.7\"], deny = " +
				"[\"192.0.2.8\", \"10.0.0.0/8\"] }\n[[site]]\nhost = \"a\"\nlimit = { allow = " +
				"\"10.0.0.0/8\", deny = \"10.1.0.0/16\" }\n" +
				"[[site]]\nhost = \"b\"\nlimit = { allow = [\"::1\", \"unix:\"], deny = \"unix:\" }",
			`t.conf:2: site.limit.allow: 10.1.0.0/16 has no effect: deny has 10.0.0.0/8, and counts
t.conf:8: site.limit.allow: unix: has no effect: deny has unix:, and counts`},
		{"files without landlock", "[confine]\nlandlock = false\nread = \"/a\"\nwrite = [\"/b\"]",
			`t.conf:3: confine.read: has no effect with landlock = false, which leaves all files
t.conf:4: confine.write: has no effect with landlock = false, which leaves all files`},

		{"hosts",
			"[[site]]\nhost = \"a.example\"\n[[site]]\nhost = [\"b.example\", " +
				"\"A.example\"]\n[[site]]\n[[site]]\n[[site]]\nhost = []",
			`t.conf:4: site.host: "A.example": named twice
t.conf:6: site.host: missing, and site 2 has none either: only one site can be the default
t.conf:8: site.host: expected at least one name; leave it out for the default site`},
	}
	dir := t.TempDir()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := source().Parse(filepath.Join(dir, "t.conf"), test.text)
			got := strings.ReplaceAll(fmt.Sprint(err), dir+"/t.conf", "t.conf")
			got = strings.ReplaceAll(got, dir, "DIR")
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("text:\n%s\n(-want +got):\n%s", test.text, diff)
			}
		})
	}
}

// The file in the repository's root is the manual of all keys: it must load, name every key, and
// tell the truth about the defaults.
func TestExampleFile(t *testing.T) {
	const file = "../../../lwango.conf"
	if _, err := (source().Load()); err != nil {
		t.Fatalf("no file: %v", err)
	}
	s := source()
	s.File = file
	asItIs, err := s.Load()
	if err != nil {
		t.Fatalf("as it is: %v", err)
	}
	for _, r := range asItIs.Sites[0].Routes {
		if r.Handler == "echo" {
			t.Errorf("%s shows scripts of any page the cookies that HttpOnly hides from them", r.Prefix)
		}
	}
	if got := asItIs.Headers["x-content-type-options"]; !slices.Equal(got, []string{"nosniff"}) {
		t.Errorf("x-content-type-options: %q", got)
	}

	text := must.Get(os.ReadFile(file))(t)
	// Lines like `# key = value  # why` at the top of the file show defaults.
	top, _, _ := strings.Cut(string(text), "\n[")
	shown := regexp.MustCompile(`(?m)^# ([a-z_]+ = .*)$`).FindAllStringSubmatch(top, -1)
	var all []string
	for _, m := range shown {
		all = append(all, m[1])
	}
	got := must.Get(source().Parse("lwango.conf", strings.Join(all, "\n")))(t)
	want := must.Get(source().Parse("lwango.conf", ""))(t)
	if diff := cmp.Diff(scalars(want), scalars(got)); diff != "" {
		t.Errorf(
			"the defaults that lwango.conf shows are not those of the program (-program +shown):\n%s", diff)
	}
	for _, key := range settings.Keys(got) {
		if !regexp.MustCompile(`(?m)^(# )?(\[*` + key + `\]|` + key + ` =)`).Match(text) {
			t.Errorf("lwango.conf does not show %s", key)
		}
	}
}

// scalars are the values of a configuration's plain keys.
func scalars(c *config.Config) map[string]string {
	m := map[string]string{}
	v := reflect.ValueOf(c).Elem()
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag.Get("toml")
		switch v.Field(i).Kind() {
		case reflect.Int, reflect.Int64, reflect.String:
			if tag != "" {
				m[tag] = fmt.Sprint(v.Field(i).Interface())
			}
		}
	}
	return m
}

func TestRelativePaths(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "www"), 0o755))
	text := "[[listener]]\naddress = \"unix:s\"\n[access_log]\npath = \"log\"\n" +
		route("prefix = \"/\"\nmodule = \"serve_files\"\npath = \"www\"")
	c := must.Get(source().Parse(filepath.Join(dir, "t.conf"), text))(t)
	if got, want := c.Listeners[0].Address.Name, filepath.Join(dir, "s"); got != want {
		t.Errorf("socket %s, want %s", got, want)
	}
	if got, want := c.AccessLog.Path, filepath.Join(dir, "log"); got != want {
		t.Errorf("log %s, want %s", got, want)
	}
}

// TestEnv: a module is told where it is.
func TestEnv(t *testing.T) {
	var envs []handlers.Env
	s := source()
	s.Modules = new(handlers.Registry)
	handlers.RegisterModule(s.Modules, "spy", struct{}{},
		func(_ struct{}, env handlers.Env) (conn.Handler, error) {
			envs = append(envs,
				handlers.Env{Dir: env.Dir, Prefix: env.Prefix, Hosts: env.Hosts, Logger: env.Logger})
			return func(*conn.Request, *conn.Response) int { return 0 }, nil
		})
	text := "[[site]]\nhost = [\"a.example\", \"*.b.example\"]\n[[site.route]]\nprefix = " +
		"\"/x\"\nmodule = \"spy\"\n" +
		route("prefix = \"/\"\nmodule = \"spy\"")
	must.Get(s.Parse("/etc/t.conf", text))(t)
	want := []handlers.Env{
		{Dir: "/etc", Prefix: "/x", Hosts: []string{"a.example", "*.b.example"}, Logger: s.Logger},
		{Dir: "/etc", Prefix: "/", Logger: s.Logger},
	}
	if !reflect.DeepEqual(envs, want) {
		t.Errorf("%+v, want %+v", envs, want)
	}
}

// A compiled-in route is served on every site. One of the configuration for the same place is
// refused.
func TestCompiledRoutes(t *testing.T) {
	p := server.NewProgram(config.Builtin())
	h := func(*conn.Request, *conn.Response) int { return 0 }
	p.Handle("/app", h)
	p.Handle("/", h)
	for _, bad := range []string{"/app", "/app/", "app", "", "/a//b"} {
		func() {
			defer func() {
				if r := recover(); r == nil || !strings.HasPrefix(fmt.Sprint(r), "lwango: Handle: ") {
					t.Errorf("Handle(%q): recovered %v", bad, r)
				}
			}()
			p.Handle(bad, h)
		}()
	}
	s := source()
	s.Routes = []handlers.Route{{Prefix: "/app", Handler: h}, {Prefix: "/", Handler: h}}
	if _, err := s.Parse("t.conf", route("prefix = \"/other\"\nhandler = \"echo\"")); err != nil {
		t.Errorf("a route beside them: %v", err)
	}
	_, err := s.Parse("t.conf", route("prefix = \"/app/\"\nhandler = \"echo\"")+
		"\n[[site.route]]\nprefix = \"/\"\nhandler = \"echo\"")
	const want = `t.conf:3: site.route.prefix: "/app/": the program has a handler of its own there, which would get no requests
t.conf:6: site.route.prefix: "/": the program has a handler of its own there, which would get no requests`
	if fmt.Sprint(err) != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
	s.Root = t.TempDir()
	if _, err := s.Load(); err == nil ||
		!strings.Contains(err.Error(), "-r "+s.Root+": the program has a handler of its own for /") {
		t.Errorf("-r beside a handler for /: %v", err)
	}
	s.Routes = s.Routes[:1]
	if _, err := s.Load(); err != nil {
		t.Errorf("-r beside a handler elsewhere: %v", err)
	}
}

// Whatever the text, loading it ends without a panic.
func FuzzConfig(f *testing.F) {
	f.Add(
		"[[site]]\nhost = [\"*.a\"]\n[[site.route]]\nprefix = \"/\"\nmodule = \"redirect\"\nto = " +
			"\"/{path}\"\n")
	f.Add(
		"[headers]\na = \"b\"\n[[listener]]\naddress = \"[::1]:0\"\ntls = {}\n[access_log]\npath = \"x\"")
	f.Add("max_body_size = \"1MiB\"\ngrace = \"1h\"\nthreads = 1\n")
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text string) {
		c, err := source().Parse(filepath.Join(dir, "t.conf"), text)
		if (c == nil) == (err == nil) {
			t.Errorf("configuration %v and error %v", c, err)
		}
	})
}

// TestNoLimit: -1 is no limit for grace, drain and watchdog, as for all limits.
func TestNoLimit(t *testing.T) {
	t.Parallel()
	c := must.Get(source().Parse("t.conf", "grace = -1\ndrain = -1\nwatchdog = -1\n"))(t)
	if c.Grace != 24*time.Hour || c.Drain != 24*time.Hour || c.Watchdog > 0 {
		t.Errorf("grace %v, drain %v, watchdog %v", c.Grace, c.Drain, c.Watchdog)
	}
}
