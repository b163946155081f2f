package cache

import (
	"cmp"
	"errors"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/base/ascii"
	"github.com/lwango/lwango/internal/content/cachestore"
	"github.com/lwango/lwango/internal/wire/http1"
	"github.com/lwango/lwango/internal/wire/rfc9111"
	"github.com/lwango/lwango/loop"
)

// maxLookups is how many times a request looks for an answer, where others change what is kept
// meanwhile. Then it bypasses the cache.
const maxLookups = 4

// serve is the handler.
func (l *layer) serve(req *conn.Request, resp *conn.Response) int {
	r := req.Layer()
	method := req.Method()
	at := l.store.at.Load()
	if method == methodPurge {
		return l.servePurge(req, resp, at)
	}
	if at == nil { // it is another process's, see Share
		if !l.store.ever.Load() && !l.store.noted.Swap(true) {
			l.log.Warn(
				"cache: the store is not open, so that nothing is kept: make it with cache.Open, or call its " +
					"Configure")
		}
		if method == http.MethodGet || method == http.MethodHead {
			return l.forward(req, resp, rfc9111.ForwardBypass)
		}
		return l.invalidating(req, resp, nil, method)
	}
	if method != http.MethodGet && method != http.MethodHead {
		return l.invalidating(req, resp, at, method)
	}
	q, bypass := l.read(req, resp, method)
	if bypass {
		return l.forward(req, resp, rfc9111.ForwardBypass)
	}
	var space [usualKey]byte
	text, way := l.appendFirst(space[:0], req)
	line := at.Line(text)
	if text = l.appendRest(text, req, way); len(text) > maxKey {
		return l.forward(req, resp, rfc9111.ForwardBypass)
	}
	// What is fresh is found and sent without a copy of the key, and what is known not to be kept is
	// passed on.
	key := at.KeyOf(text, line)
	var found [4]*cachestore.Object
	seen := at.Find(req.Thread, key, found[:0])
	o, why := l.find(seen, r)
	now := l.store.now(req)
	probe := false
	switch {
	case o != nil:
		s := l.planResponse(o, now)
		var p plan
		if p.decide(&q, &s, now); p.act == sends {
			status, _ := l.send(req, resp, o, &s, &p, now)
			return status
		}
	case l.uses != nil && !q.OnlyIfCached && !l.uses.enough(key.Hash()):
		return l.forward(req, resp, why)
	case method == http.MethodGet && !q.OnlyIfCached && !q.Authorized && !l.identified(req) &&
		l.store.hitForMiss.has(key.Hash(), now):
		// A part is asked for as a part: what is too long is no whole to look at.
		if q.Ranged || !l.store.hitForMiss.probe(key.Hash(), now) {
			return l.forward(req, resp, why)
		}
		probe = true
	}
	return l.miss(req, resp, at, key, seen, &q, probe)
}

// miss answers a request for which there is nothing fresh among what was seen. probe is that of
// hitForMiss.
func (l *layer) miss(req *conn.Request, resp *conn.Response, at *opened, key cachestore.Key,
	seen []*cachestore.Object, q *planRequest, probe bool) int {
	r, request := req.Layer(), &q.Request
	request.Authorized = request.Authorized || l.identified(req)
	var validated *cachestore.Object
	for attempt := range maxLookups {
		now := l.store.now(req)
		if attempt > 0 {
			seen = at.Lookup(req.Thread, key)
		}
		o, why := l.find(seen, r)
		if o != nil {
			s := l.planResponse(o, now)
			s.valid = o.Same(validated)
			var p plan
			switch p.decide(q, &s, now); p.act {
			case refuses:
				return p.status
			case sends, sendsAndForwards:
				status, sent := l.send(req, resp, o, &s, &p, now)
				if sent && p.act == sendsAndForwards { // else the handler was asked already
					l.refresh(req, at, key, seen, o, request)
				}
				return status
			}
			why = p.why
		} else if request.OnlyIfCached {
			return http.StatusGatewayTimeout
		}
		if request.Method == http.MethodHead {
			return l.forward(req, resp, why)
		}
		mark := markOf(key, request)
		marked := l.store.hitForMiss.has(mark, now)
		if marked && (o == nil || attempt > 0) && !(probe && attempt == 0) {
			return l.forward(req, resp, why)
		}
		var status int
		var again error
		x := fetch{at: at, markedKey: mark, old: o, request: *request, why: why, alone: marked}
		if reader, to, f := l.beginFetch(req, key, seen, &x); f != nil {
			status, validated, again = l.lead(req, resp, f)
		} else {
			status, validated, again = l.fetch(req, resp, &x, reader, to)
		}
		if again == nil {
			return status
		}
	}
	return l.forward(req, resp, rfc9111.ForwardMiss)
}

// identified reports whether the application learns who the client is from another source than the
// client's fields: from `auth`, or by a certificate.
func (l *layer) identified(req *conn.Request) bool {
	r := req.Layer()
	if req.User() != "" || r.HeadersReplaced() {
		return true
	}
	if r.Proxied() { // the certificate of a proxy names no client
		return false
	}
	return r.ClientCertificate() != nil && !(l.keyHasCert && r.ClientVerify() == "SUCCESS")
}

// read reads what a GET or HEAD says to caches. bypass says that the cache leaves the request to
// the handler: it has a body, which an application may look at; it would change the protocol; it
// has conditions that only the origin can judge; it names fields that are not sent on, which a key,
// Vary and rules would read; it is asked about another request; or the operator says so.
func (l *layer) read(req *conn.Request, resp *conn.Response,
	method string) (q planRequest, bypass bool) {
	r := req.Layer()
	if q = (planRequest{Request: rfc9111.Plain(method), from: r, coding: l.coding}); r.TellsCaches() {
		q = l.planRequest(req, resp, rfc9111.ReadRequest(method, r))
		if l.ignoreClients {
			q.Ignore()
		}
		_, upgrades := r.HeaderView("Upgrade")
		bypass = q.Guarded || upgrades || namesFields(r)
	}
	if len(l.renew) > 0 && holds(l.renew, r) {
		q.NoCache, q.OnlyIfCached = true, false
	}
	return q, bypass || req.ContentLength() != 0 || r.IsSubrequest() ||
		len(l.bypass) > 0 && holds(l.bypass, r)
}

// namesFields reports whether Connection names other fields than those that are never sent on.
func namesFields(r conn.RequestLayer) (names bool) {
	list, next := r.HeaderViewFrom("Connection", 0)
	for ; next > 0 && !names; list, next = r.HeaderViewFrom("Connection", next) {
		ascii.EachElement(list, func(option []byte) bool {
			names = !ascii.EqualFold(option, "keep-alive") && !ascii.EqualFold(option, "close") &&
				!http1.HopByHop(string(option))
			return !names
		})
	}
	return names
}

func holds(all []*rules.Match, q rules.Asked) bool {
	for _, m := range all {
		if m.Holds(q) {
			return true
		}
	}
	return false
}

// markOf is what hitForMiss has of a key. Answers to requests with Authorization are often not
// kept, whatever becomes of others.
func markOf(key cachestore.Key, request *rfc9111.Request) uint64 {
	if request.Authorized {
		return key.Hash() ^ 1<<secondBits // another slot, and another tag
	}
	return key.Hash()
}

// find returns the variant for a request, nil and the reason if there is none.
func (l *layer) find(objects []*cachestore.Object,
	r conn.RequestLayer) (*cachestore.Object, rfc9111.Forward) {
	for _, o := range objects {
		if !o.Varies() || fits(o.Vary(), r) {
			return o, 0
		}
	}
	if len(objects) > 0 {
		return nil, rfc9111.ForwardVaryMiss
	}
	return nil, rfc9111.ForwardURIMiss
}

// forward has the handler answer the request itself.
func (l *layer) forward(req *conn.Request, resp *conn.Response, why rfc9111.Forward) int {
	use := conn.CacheMiss
	if why == rfc9111.ForwardBypass || why == rfc9111.ForwardMethod {
		use = conn.CacheBypass
	}
	req.Layer().SetCache(use)
	resp.Layer().BeforeHead(forwarded[why])
	return l.next(req, resp)
}

// forwarded are hooks that say so in Cache-Status.
var forwarded = func() (hooks [rfc9111.ForwardPartial + 1]conn.HeadHook) {
	for why := range hooks {
		s := rfc9111.CacheStatus{Cache: rfc9111.Name, Forward: rfc9111.Forward(why)}
		text := string(s.Append(nil))
		hooks[why] = func(_ *conn.Request, resp *conn.Response, _ int) { addStatus(resp, text) }
	}
	return hooks
}()

// addStatus adds this cache's member of Cache-Status behind those of caches nearer to the origin.
func addStatus(resp *conn.Response, text string) {
	h := resp.Header()
	removeForThisCache(h)
	h.Add(rfc9111.FieldCacheStatus, text)
}

// removeForThisCache removes the fields that no client gets.
func removeForThisCache(h *conn.Header) {
	for _, name := range rfc9111.ForThisCache {
		h.Del(name)
	}
}

// invalidating forwards a request of another method, and drops what is kept if the answer
// invalidates it (RFC 9111 section 4.4).
func (l *layer) invalidating(req *conn.Request, resp *conn.Response, at *opened,
	method string) int {
	req.Layer().SetCache(conn.CacheBypass)
	resp.Layer().BeforeHead(forwarded[rfc9111.ForwardMethod])
	if l.key != nil || !rfc9111.Unsafe(method) {
		return l.next(req, resp)
	}
	// A body may be long or slow, and once its head is there nobody should get the old answer.
	headed := false
	var marked cachestore.Marked
	resp.Layer().BeforeHead(func(req *conn.Request, resp *conn.Response, status int) {
		if !headed {
			headed, marked = true, l.invalidate(req, resp, method, status)
		}
	})
	status := l.next(req, resp)
	if !headed {
		headed, marked = true, l.invalidate(req, resp, method, cmp.Or(status, http.StatusOK))
	}
	if marked != (cachestore.Marked{}) {
		_ = at.beside(req, marked.Wait)
	}
	return status
}

// invalidate drops what an answer with that status, whose head is complete, invalidates. It does
// not wait for the disk.
func (l *layer) invalidate(req *conn.Request, resp *conn.Response, method string,
	status int) (marked cachestore.Marked) {
	if !rfc9111.Invalidates(method, status) {
		return marked
	}
	var changed purgeMessage
	add := func(target []byte) {
		if url := appendURL(nil, req, target); len(url) <= maxKey { // nothing is kept for a longer one
			changed.URLs = append(changed.URLs, string(url))
		}
	}
	add(req.Layer().TargetView())
	// Both are relative to what the client has asked for, which a rule may have rewritten (RFC 9110
	// sections 8.7 and 10.2.2).
	scheme, target := "http", string(pathOf(req.Layer().TargetView()))
	if req.Secure() {
		scheme = "https"
	}
	for _, name := range [...]string{"Location", "Content-Location"} {
		if location := resp.Header().Get(name); location != "" {
			if origin, ok := rfc9111.Target(scheme, req.Host(), target, location); ok {
				add([]byte(origin))
			}
		}
	}
	if changed.Check() != nil {
		return marked
	}
	return l.store.mark(changed, false)
}

// fetch is a request for what is not kept, or has to be validated.
type fetch struct {
	at        *opened
	markedKey uint64
	old       *cachestore.Object
	request   rfc9111.Request
	why       rfc9111.Forward
	alone     bool // others need not wait for the head
}

// beginFetch begins to fill what is asked for, or joins those who do. f is not nil where the
// request leads by its own exchange (lead); otherwise the results are Store.Begin's. Nothing of it
// is on the stack while the application is asked: after a switch of threads, each frame to return
// through is a line that the processor has lost.
func (l *layer) beginFetch(req *conn.Request, key cachestore.Key, seen []*cachestore.Object,
	q *fetch) (
	reader *cachestore.Reader, to *cachestore.Fill, f *fill) {
	match := fitting(req.Layer())
	if !l.buffering {
		reader, to = q.at.Begin(key, seen, match)
		return reader, to, nil
	}
	f = l.leader(req, q)
	if reader, to = q.at.BeginLed(key, seen, match, f.to, f); to != nil {
		return nil, nil, f
	}
	f.spare()
	return reader, nil, nil
}

// fitting returns what tells whether an answer's head is one for a request.
func fitting(r conn.RequestLayer) func(*cachestore.Head) bool {
	return func(h *cachestore.Head) bool {
		k := answerOf(h)
		return k.shared && k.fits(r)
	}
}

// fetch answers a request by what the handler, or another request's, brings; reader and to are
// those of beginFetch. An error means that the caller has to look again; if what is kept is true,
// as its origin has just said, it is validated.
func (l *layer) fetch(req *conn.Request, resp *conn.Response, q *fetch, reader *cachestore.Reader,
	to *cachestore.Fill) (status int, validated *cachestore.Object, again error) {
	r := req.Layer()
	if reader == nil {
		return 0, nil, cachestore.ErrAgain
	}
	var f *fill
	var k answer
	var err error
	if to != nil {
		to.For(req.Thread.Layer().Client())
		f = l.begin(req, to, q)
		k, err = f.lead(req, resp)
	} else {
		var head *cachestore.Head
		if head, err = reader.Head(req.Thread, l.lock); err == nil {
			k = answerOf(head)
		}
	}
	switch {
	case err == nil && (to != nil || k.shared && k.fits(r)):
		return l.follow(req, resp, q, reader, k, f), nil, nil
	case err == nil: // it is for another one
		err = cachestore.ErrAgain
	case err == cachestore.ErrAgain:
		validated, _ = reader.Object(req.Thread, 0)
	case err == loop.ErrDeadlineExceeded:
		reader.Unlist()
		// The next ones do not wait as long, one after the other; the head that comes ends that.
		l.store.hitForMiss.add(q.markedKey, l.store.now(req), hitForMissLong)
	}
	_ = reader.Close()
	switch {
	case errors.Is(err, loop.ErrClientGone):
		if f == nil { // the one that has asked may have left before
			f, _ = reader.Owner().(*fill)
		}
		if f != nil {
			f.left()
		}
		resp.Abort() // the client may have closed its sending half alone: 200 would be a lie
		return 0, nil, nil
	case err == cachestore.ErrAgain:
		return 0, validated, err
	}
	// The application has failed, or has not answered in time.
	now := l.store.now(req)
	if q.old != nil {
		if fresh := l.store.freshness(q.old, now); fresh.IfError(&q.request, now) {
			return l.hit(req, resp, q.old, conn.CacheStale, now), nil, nil
		}
	}
	if f == nil {
		return l.forward(req, resp, q.why), nil, nil
	}
	r.TookUpstream(f.background)
	r.SetCache(use(q))
	if f.head != nil { // it has broken off, and the client has no byte yet
		return http.StatusBadGateway, nil, nil
	}
	resp.Abort()
	return 0, nil, nil
}

// use is what the cache does with a request that asks.
func use(q *fetch) conn.CacheUse {
	if q.old != nil {
		return conn.CacheExpired
	}
	return conn.CacheMiss
}

// begin begins to fill by a background subrequest.
func (l *layer) begin(req *conn.Request, to *cachestore.Fill, q *fetch) *fill {
	f := l.fill(req, to, q)
	to.Own(f)
	f.limit()
	f.send(req)
	return f
}

// fill makes what fills.
func (l *layer) fill(req *conn.Request, to *cachestore.Fill, q *fetch) *fill {
	f := newFill()
	if to == nil {
		to = &f.space
	}
	f.l, f.at, f.to, f.request, f.old, f.markedKey, f.alone = l, q.at, to, q.request, q.old,
		q.markedKey, q.alone
	f.keep = !holds(l.noStore, req.Layer())
	return f
}

// limit says whether others may wait for the head.
func (f *fill) limit() {
	switch {
	case !f.keep || f.request.NoStore:
		f.to.Keep(false)
	case f.request.Authorized || f.alone:
		f.to.Alone()
	}
}

// lead waits for the head, as the request that has asked for it, and passes interim answers on.
func (f *fill) lead(req *conn.Request, resp *conn.Response) (answer, error) {
	for {
		_, err := req.AwaitAny(-1, f)
		for _, i := range f.interims {
			h := new(conn.Header)
			for _, field := range i.fields {
				h.Add(field.Name, field.Value)
			}
			_ = resp.Inform(i.status, h)
		}
		f.interims = nil
		switch {
		case err != nil:
			f.leader, f.away = nil, true
			return answer{}, err
		case f.head != nil && f.err == nil:
			f.leader = nil
			return answerOf(f.head), nil
		case f.ended:
			f.leader = nil
			return answer{}, f.err
		}
		f.ready = false // no head yet
	}
}

// maxRefreshes is how many refreshes a store has at a time; the last quarter of them is for sites
// that have less than a quarter. Beyond that, what is stale is sent without
// one.
const maxRefreshes = 256

// refresh validates a stale answer beside the request that gets it, unless that is being done. It
// asks as a GET that says nothing to caches.
func (l *layer) refresh(req *conn.Request, at *opened, key cachestore.Key,
	seen []*cachestore.Object, o *cachestore.Object, request *rfc9111.Request) {
	r := req.Layer()
	if holds(l.noStore, r) {
		return // its answer could not be kept
	}
	if !l.refreshes.enter(&l.store.refreshes) {
		return
	}
	reader, to := at.Begin(key, seen, fitting(r))
	if reader != nil {
		_ = reader.Close()
	}
	if to == nil {
		l.refreshes.leave(&l.store.refreshes)
		return
	}
	plain := *request
	plain.Method, plain.Ranged = http.MethodGet, false
	plain.Ignore()
	f := l.begin(req, to, &fetch{at: at, markedKey: markOf(key, request), old: o, request: plain})
	f.isRefresh = true
}
