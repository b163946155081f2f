package placeholder

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/template"
)

// Address is a text that is an address to send clients to, or a target for a request. What the
// values of maps make of it is checked before any request: each of them has a Template, in which no
// part of a request names the server (template.ParseAddress).
type Address struct {
	// One of the following.

	m  *table               // whose value chooses the next one
	by map[*result]*Address // see m

	schemes *[2]*Address // for http and https

	template *template.Template // nil: the text is empty
	others   Text               // further captures of the template, behind those of the caller
	ofMaps   []string           // and behind these the groups of maps, as "name.group"
}

// maxVariants is how many templates an Address may have.
const maxVariants = 200000

// ParseAddress reads an address, see template.ParseAddress. groups are names of further
// placeholders. m may be nil.
func (m *Maps) ParseAddress(text string, groups []string) (*Address, error) {
	return m.parseAddress(text, groups, false)
}

// ParseTarget reads a target, see template.ParseTarget.
func (m *Maps) ParseTarget(text string, groups []string) (*Address, error) {
	return m.parseAddress(text, groups, true)
}

// addressKey is what an Address is made of. Names of groups have no spaces.
type addressKey struct {
	text, groups string
	target       bool
}

func (m *Maps) parseAddress(text string, groups []string, target bool) (*Address, error) {
	b := addressBuilder{Maps: m, groups: groups, parse: template.ParseAddress}
	if target {
		b.parse = template.ParseTarget
	}
	switch {
	case text == "":
		_, err := b.parse(text, groups)
		return nil, err
	case m == nil:
		return b.build(text, nil)
	}
	key := addressKey{text, strings.Join(groups, " "), target}
	m.mu.Lock()
	defer m.mu.Unlock()
	if a := m.addresses[key]; a != nil {
		return a, nil
	}
	a, err := b.build(text, nil)
	if err == nil {
		m.addresses[key] = a
	}
	return a, err
}

type addressBuilder struct {
	*Maps
	groups []string
	parse  func(string, []string) (*template.Template, error)
	leaves int
}

// build makes the Address of a text in which the values of some maps stand already. ofMaps are the
// groups of these.
func (b *addressBuilder) build(text string, ofMaps []string) (*Address, error) {
	named := slices.Concat(b.groups, ofMaps)
	t, err := b.ParseBeside(text, named)
	if err != nil {
		return nil, err
	}
	within := func(i int, value string) string {
		var s strings.Builder
		for k, p := range t {
			switch {
			case k == i:
				s.WriteString(value)
			case p.Name != "":
				s.WriteString("{" + p.Name + "}")
			default:
				s.WriteString(p.Text)
			}
		}
		return s.String()
	}
	for i, p := range t {
		switch {
		case p.kind == kindScheme:
			both := new([2]*Address)
			for k, scheme := range []string{"http", "https"} {
				if both[k], err = b.build(within(i, scheme), ofMaps); err != nil {
					return nil, err
				}
			}
			return &Address{schemes: both}, nil
		case p.m != nil:
			return b.mapped(p.m, ofMaps, func(value string) string { return within(i, value) })
		}
	}
	if b.leaves++; b.leaves > maxVariants {
		return nil, fmt.Errorf("the maps of the text have more than %d values together", maxVariants)
	}
	if text == "" {
		return new(Address), nil
	}
	a := &Address{ofMaps: ofMaps}
	captures := slices.Clone(b.groups)
	for _, p := range t {
		if p.Name != "" && p.group == 0 && !template.Own(p.Name) && !slices.Contains(captures, p.Name) {
			captures, a.others = append(captures, p.Name), append(a.others, p)
		}
	}
	a.template, err = b.parse(text, append(captures, ofMaps...))
	return a, err
}

// mapped makes the Address of a text for each value of a map.
func (b *addressBuilder) mapped(m *table, ofMaps []string,
	within func(value string) string) (*Address, error) {
	a := &Address{m: m, by: make(map[*result]*Address)}
	same := make(map[string]*Address)
	for _, r := range m.results() {
		value, groups := r.source, ofMaps
		if r.text.HasGroups() {
			value = ""
			for _, p := range r.text {
				switch name := m.name + "." + p.Name; {
				case p.group > 0:
					value += "{" + name + "}"
					if !slices.Contains(groups, name) {
						groups = append(slices.Clip(groups), name)
					}
				case p.Name != "":
					value += "{" + p.Name + "}"
				default:
					value += p.Text
				}
			}
		} else if a.by[r] = same[value]; a.by[r] != nil {
			continue
		}
		next, err := b.build(within(value), groups)
		if err != nil {
			return nil, fmt.Errorf("with %q for {%s}: %w", r.source, m.name, err)
		}
		if a.by[r] = next; len(groups) == len(ofMaps) {
			same[value] = next
		}
	}
	return a, nil
}

// Choose returns the template for a request, and adds to s, which has the parts of the request, the
// captures of the template behind those that the caller has. It is nil where the text stands for
// nothing: the value of a map is empty.
func (a *Address) Choose(q Asked, s *template.Source) *template.Template {
	var found map[string]template.Part // what groups of maps have matched
	for a.template == nil {
		switch {
		case a.schemes != nil && q.Secure():
			a = a.schemes[1]
		case a.schemes != nil:
			a = a.schemes[0]
		case a.m != nil:
			r, groups := a.m.choose(q)
			if found == nil {
				found = make(map[string]template.Part)
			}
			for i, group := range groups {
				found[a.m.name+"."+r.groups[i]] = a.m.from.matched(group)
			}
			a = a.by[r]
		default:
			return nil
		}
	}
	for i := range a.others {
		s.Captures = append(s.Captures, a.others[i].part(q, s))
	}
	for _, name := range a.ofMaps {
		s.Captures = append(s.Captures, found[name])
	}
	return a.template
}

// part returns the part of a request for a template.
func (p *Piece) part(q Asked, s *template.Source) template.Part {
	text := string(p.appendPart(nil, q))
	switch p.kind {
	case kindRest:
		return template.Part{Text: strings.TrimPrefix(s.Below.Text, "/"), Sent: text}
	case kindPrefix:
		return template.Part{Text: strings.TrimSuffix(q.Prefix(), "/"), Sent: text}
	case kindParameter:
		value, _ := parameter(nil, q.QueryView(), p.of)
		text = strings.ReplaceAll(string(value), http1.EncodedSlash, "")
	}
	return template.Part{Text: text}
}

// matched returns what a group has matched in a text that stands for t, for a template. Where t is
// nothing but parts of a target, these are encoded already.
func (t Text) matched(group string) template.Part {
	for i := range t {
		switch p := &t[i]; {
		case p.Name == "":
		case p.m != nil, p.kind != kindPath && p.kind != kindRest && p.kind != kindPrefix &&
			p.kind != kindURI:
			return template.Part{Text: group}
		}
	}
	decoded, err := url.PathUnescape(group)
	if err != nil { // it has a part of a code
		return template.Part{Text: group}
	}
	var sent []byte // what may stand in a query need not in a path
	for i, piece := range strings.Split(group, "%") {
		if i > 0 {
			sent = append(sent, '%')
		}
		sent = http1.AppendPath(sent, []byte(piece))
	}
	return template.Part{Text: decoded, Sent: string(sent)}
}

// choose returns the value of the map for a request, and what the groups of its expression have
// matched.
func (t *table) choose(q Asked) (*result, []string) {
	if t.networks != nil && len(t.from) == 1 && t.from[0].kind == kindAddress {
		return t.valueOf(q), nil
	}
	key := t.from.append(nil, q, nil)
	if t.folds {
		lower(key)
	}
	r, p := t.find(key)
	if p == nil || !p.groups {
		return r, nil
	}
	return r, p.re.FindStringSubmatch(string(key))[1:]
}

// Source returns the parts of a request for an address or a target (template.Template).
func Source(req *conn.Request) *template.Source {
	l := req.Layer()
	_, query, asks := strings.Cut(string(l.AppendTarget(nil)), "?")
	return &template.Source{
		Host:  req.Host(),
		Path:  template.Part{Text: req.Path(), Sent: string(l.SentPathView())},
		Below: template.Part{Text: req.SubPath(), Sent: string(appendBelow(nil, l, true))},
		Query: query,
		Asks:  asks,
	}
}
