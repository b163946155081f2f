package cache

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/modules/placeholder"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
	"github.com/lwango/lwango/loop"
)

// Purge says which answers go: those with one of the URLs, prefixes or tags, kept or on their way.
type Purge struct {
	// URLs have scheme, host and query: "https://example.org/a?b=c". One that begins with "//" is
	// for both schemes. For routes with a key of their own, it is the text of that.
	URLs []string `json:"urls,omitempty"`
	// Prefixes are what URLs begin with: "https://example.org/shop/".
	Prefixes []string `json:"prefixes,omitempty"`
	// Tags are those of Cache-Tag, Surrogate-Key and Response.Cache.
	Tags []string `json:"tags,omitempty"`
	// All is for all that is kept.
	All bool `json:"all,omitempty"`

	// Soft makes answers stale instead: they are validated before they are sent again, and may be
	// sent as any stale answer meanwhile.
	Soft bool `json:"soft,omitempty"`
}

// Check returns an error for a purge of nothing, or of what is no URL.
func (p *Purge) Check() error {
	if len(p.URLs)+len(p.Prefixes)+len(p.Tags) == 0 && !p.All {
		return errors.New("nothing to purge: expected a URL, a prefix, a tag, or all")
	}
	for _, list := range [...][]string{p.URLs, p.Prefixes} {
		for _, u := range list {
			if u == "" || strings.ContainsAny(u, "\r\n") {
				return fmt.Errorf("not a URL: %q", u)
			}
		}
	}
	for _, tag := range p.Tags {
		if tag == "" || strings.ContainsAny(tag, " ,\t\r\n") {
			return fmt.Errorf("not a tag: %q", tag)
		}
	}
	return nil
}

// Purge purges, and tells other processes of it where Share has been called. By tag or prefix, or
// of all, it costs the same whatever is kept: what is purged is found out when it is asked for, and
// its memory comes back a little later. What is kept of a URL in memory is removed at once. Where
// the store has a folder, Purge writes to the disk: a handler calls it by Request.Await. The errors
// are those of Check and of the disk; then a restart may bring back what was purged. Any goroutine
// may call it.
func (s *Store) Purge(p Purge) error {
	return s.do(purgeMessage{Purge: p}, true)
}

// purgeMessage is a Purge as processes tell it to each other.
type purgeMessage struct {
	Purge
	// Site, if there is one, are the names of the only site whose tags, and whose texts of keys of
	// the operator's, are purged.
	Site *string `json:"site,omitempty"`
	// Those URLs, prefixes and tags that are not UTF-8, which JSON has not.
	RawURLs     [][]byte `json:"raw_urls,omitempty"`
	RawPrefixes [][]byte `json:"raw_prefixes,omitempty"`
	RawTags     [][]byte `json:"raw_tags,omitempty"`
}

// text returns the message for other processes.
func (p purgeMessage) text() []byte {
	p.URLs, p.RawURLs = inUTF8(p.URLs)
	p.Prefixes, p.RawPrefixes = inUTF8(p.Prefixes)
	p.Tags, p.RawTags = inUTF8(p.Tags)
	var text bytes.Buffer
	e := json.NewEncoder(&text)
	e.SetEscapeHTML(false)
	_ = e.Encode(p) // there is nothing else that JSON has not
	return bytes.TrimSuffix(text.Bytes(), []byte("\n"))
}

// outOfRaw takes what inUTF8 has set apart back.
func outOfRaw(good []string, raw [][]byte) []string {
	for _, b := range raw {
		good = append(good, string(b))
	}
	return good
}

func inUTF8(all []string) (good []string, raw [][]byte) {
	for _, s := range all {
		if utf8.ValidString(s) {
			good = append(good, s)
		} else {
			raw = append(raw, []byte(s))
		}
	}
	return good, raw
}

// do purges, and tells other processes. lasting is as Share has it.
func (s *Store) do(p purgeMessage, lasting bool) error {
	if err := p.Check(); err != nil {
		return err
	}
	return s.mark(p, lasting).Wait()
}

// mark is do for a message that is checked, without the wait for the disk.
func (s *Store) mark(p purgeMessage, lasting bool) cachestore.Marked {
	marked := s.apply(p)
	if share := s.share.Load(); share != nil {
		(*share)(p.text(), lasting)
	}
	return marked
}

// Share has publish called with each purge from now on, which hands the text to the Shared of the
// stores of other processes. A lasting one is also for those that do not run just now; others are
// of POST and the like, which may come often. publish must not wait. nil ends that.
func (s *Store) Share(publish func(text []byte, lasting bool)) {
	if publish == nil {
		s.share.Store(nil)
		return
	}
	s.share.Store(&publish)
}

// Shared does what another process has purged, all of it before it waits for the disk, once. The
// error is the first one; texts that are no purges hold up no others.
func (s *Store) Shared(texts ...[]byte) error {
	var all []purgeMessage
	var bad error
	for _, text := range texts {
		var p purgeMessage
		err := json.Unmarshal(text, &p)
		p.URLs = outOfRaw(p.URLs, p.RawURLs)
		p.Prefixes = outOfRaw(p.Prefixes, p.RawPrefixes)
		p.Tags = outOfRaw(p.Tags, p.RawTags)
		if err = cmp.Or(err, p.Check()); err != nil {
			bad = cmp.Or(bad, err)
			continue
		}
		all = append(all, p)
	}
	return cmp.Or(bad, s.apply(all...).Wait())
}

// Inherited is Shared for what a process has purged that this one has taken the place of. It tells
// those that Share tells, too: this one may have been replaced itself since.
func (s *Store) Inherited(text []byte) error {
	if share := s.share.Load(); share != nil {
		(*share)(text, false)
	}
	return s.Shared(text)
}

func (s *Store) apply(all ...purgeMessage) cachestore.Marked {
	at := s.at.Load()
	if at == nil || len(all) == 0 {
		return cachestore.Marked{}
	}
	list := make([]cachestore.Purge, len(all))
	for i := range all {
		list[i] = all[i].storePurge()
	}
	return at.Mark(list...)
}

// storePurge returns the purge for the cachestore.
func (p *purgeMessage) storePurge() cachestore.Purge {
	one := cachestore.Purge{All: p.All, Tags: p.Tags, Soft: p.Soft}
	if p.Site != nil {
		one.Owner = append([]byte{}, *p.Site...)
	}
	for _, u := range p.URLs {
		if p.Site != nil {
			one.Lines = append(one.Lines, []byte(u+"\n"+*p.Site))
		} else {
			one.Lines = append(one.Lines, linesOf(u)...)
		}
	}
	for _, u := range p.Prefixes {
		if p.Site != nil {
			one.Prefixes = append(one.Prefixes, []byte(u))
		} else {
			one.Prefixes = append(one.Prefixes, prefixesOf(u)...)
		}
	}
	return one
}

// linesOf returns the first lines of the keys of a URL: with a path, and in both orders of the
// parameters, as there may be routes with sort_query.
func linesOf(u string) (lines [][]byte) {
	for _, b := range urlsOf(u, true) {
		if host, ok := cutScheme(b); ok {
			end := len(b)
			if i := bytes.IndexAny(b[host:], "/?"); i >= 0 {
				end = host + i
			}
			if end == len(b) || b[end] == '?' {
				b = slices.Insert(b, end, '/')
			}
		}
		lines = append(lines, b)
		if sorted := sortQuery(bytes.Clone(b), 0); !bytes.Equal(sorted, b) {
			lines = append(lines, sorted)
		}
	}
	return lines
}

// cutScheme returns where the host of a URL begins. ok is false for the text of another key.
func cutScheme(b []byte) (host int, ok bool) {
	i := bytes.Index(b, []byte("://"))
	if i < 0 || !ascii.EqualFold(string(b[:i]), "http") && !ascii.EqualFold(string(b[:i]), "https") {
		return 0, false
	}
	return i + len("://"), true
}

// prefixesOf returns the beginnings of the first lines of keys for the beginning of a URL.
func prefixesOf(u string) (prefixes [][]byte) { return urlsOf(u, false) }

// urlsOf writes a URL as the first lines of keys have it. Of one that is not whole, the last
// segment is as it is: "/a/." may be the beginning of "/a/.b".
func urlsOf(u string, whole bool) (urls [][]byte) {
	if strings.HasPrefix(u, "//") {
		return append(urlsOf("http:"+u, whole), urlsOf("https:"+u, whole)...)
	}
	u, _, _ = strings.Cut(u, "#")
	b := []byte(u)
	if end, ok := cutScheme(b); ok {
		for end < len(b) && b[end] != '/' && b[end] != '?' {
			end++
		}
		for i := range end { // the scheme and the host
			b[i] = ascii.Lower(b[i])
		}
		path, rest, hasQuery := bytes.Cut(b[end:], []byte("?"))
		if last := bytes.LastIndexByte(path, '/') + 1; !whole && !hasQuery {
			path, rest = path[:last], path[last:]
		}
		if _, err := http1.CleanPath(nil, path); len(path) > 0 && err == nil { // else no request has it
			plain, _ := plainPath(bytes.Clone(path), 0)
			if hasQuery {
				plain = append(plain, '?')
			} else {
				rest, _ = plainCodes(bytes.Clone(rest), 0)
			}
			b = append(append(b[:end:end], plain...), rest...)
		}
	}
	return [][]byte{b}
}

// methodPurge is what other caches have as well; no RFC has it.
const methodPurge = "PURGE"

// servePurge answers the method PURGE. It purges the URL of the request, for http and https, or
// with a "*" at the end all URLs that begin so; or, with Surrogate-Key or Cache-Tag, answers that
// have one of these tags. With Soft-Purge they become stale. Only clients of purge_from may do
// that, and only for the host of the request, and the tags of its site.
func (l *layer) servePurge(req *conn.Request, resp *conn.Response, at *opened) int {
	req.Layer().SetCache(conn.CacheBypass)
	if l.purgeFrom == nil || !l.purgeFrom.Contains(req.RemoteAddr().Addr()) {
		return http.StatusForbidden
	}
	if at == nil && l.store.share.Load() == nil {
		return http.StatusServiceUnavailable
	}
	h := req.Header()
	p := purgeMessage{Purge: Purge{Soft: h.Has("Soft-Purge")}}
	var tags []byte
	for name, value := range h.All() {
		if between := rfc9111.TagSeparator(name); between != "" {
			tags = appendTags(tags, value, between)
		}
	}
	if p.Tags = strings.Fields(string(tags)); len(p.Tags) > 0 || l.key != nil {
		p.Site = &l.site
	}
	if len(p.Tags) == 0 {
		var line string
		if l.key != nil {
			line = string(placeholder.Append(nil, req, l.key))
		} else {
			line = string(appendURL(nil, req, req.Layer().TargetView()))
			_, line, _ = strings.Cut(line, ":")
		}
		if prefix, all := strings.CutSuffix(line, "*"); all {
			p.Prefixes = []string{prefix}
		} else {
			p.URLs = []string{line}
		}
	}
	if err := p.Check(); err != nil {
		return resp.Error(http.StatusBadRequest, err)
	}
	if err := at.beside(req, func() error { return l.store.do(p, true) }); err != nil {
		return resp.Error(http.StatusInternalServerError, err)
	}
	return resp.Text(http.StatusOK, "purged\n")
}

// purgeWait is how long a request waits for what it purges. Memory is purged at once.
const purgeWait = 3 * time.Second

// beside does what purges for a request: with a folder, that waits for the disk, and the loop does
// not. It goes on if the request does not wait any more.
func (at *opened) beside(req *conn.Request, purge func() error) error {
	if at == nil || at.folder == "" {
		return purge()
	}
	done := new(loop.Promise[error])
	go func() { done.Resolve(purge()) }()
	defer req.KeepWaiting(req.KeepWaiting(true)) // the client may have ended its sending half alone
	failed, err := done.Await(req.Thread, purgeWait)
	return cmp.Or(err, failed)
}
