package server

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"strings"

	"github.com/lwango/lwango/handlers/cache"
	"github.com/lwango/lwango/loop"
	"github.com/lwango/lwango/pubsub"
)

// purgeTopic is the topic by which processes with a broker send each other their purges, and
// changeTopic the one for changes by POST and the like. A process that starts reads the missed
// messages of purgeTopic alone, so that many changes do not displace the purges.
const (
	purgeTopic  = "purge"
	changeTopic = "change"
)

// sharePurges publishes the purges of this process to the other processes of the broker. It is
// called before a request can purge something.
func (s *server) sharePurges() {
	store, topics := s.source.Cache, s.source.Topics
	if store == nil || topics == nil || s.disconnect == nil {
		return
	}
	purges, changes := topics.ServerTopic(purgeTopic), topics.ServerTopic(changeTopic)
	store.Share(func(text []byte, lasting bool) {
		if lasting {
			purges.Publish(text)
		} else {
			changes.Publish(text)
		}
	})
}

// subscribePurges applies the purges of the other processes. The loops run and the store is open,
// since purges from before the start of this process apply to answers on disk.
func (s *server) subscribePurges() {
	store, topics := s.source.Cache, s.source.Topics
	if store == nil || topics == nil || s.disconnect == nil {
		return
	}
	l, own := s.loops[0], topics.Origin()+"-"
	_ = l.Post(func() {
		l.Go(func(t *loop.Thread) {
			s.applyPurges(t, store, topics.ServerTopic(purgeTopic), own, pubsub.MaxQueue)
		})
		l.Go(func(t *loop.Thread) { s.applyPurges(t, store, topics.ServerTopic(changeTopic), own, 0) })
	})
}

// maxShared is how many purges of other processes are applied at a time.
const maxShared = 256

// applyPurges applies the purges of other processes until the server stops, including missed
// messages that the topic remembers, up to a number. own is the beginning of this process's own
// messages.
func (s *server) applyPurges(t *loop.Thread, store *cache.Store, topic *pubsub.Topic, own string,
	history int) {
	t.Layer().MarkDaemon() // a replaced process ends without waiting for it
	sub := topic.Subscribe(t, pubsub.Options{Queue: pubsub.MaxQueue, History: history})
	for dropped := 0; ; {
		if i, err := t.AwaitAny(-1, sub, t.Loop().Stopped()); i != 0 || err != nil {
			return
		}
		var texts [][]byte
		for m := sub.Next(); m != nil; m = sub.Next() {
			if !strings.HasPrefix(m.ID, own) {
				texts = append(texts, m.Data)
			}
			if len(texts) == maxShared {
				break
			}
		}
		if sub.Err() != nil {
			return
		}
		if n := sub.Dropped() + sub.Forgotten(); n > dropped { // of unknown content
			texts, dropped = [][]byte{[]byte(`{"all":true}`)}, n
		}
		if len(texts) == 0 {
			continue
		}
		err := t.Await(-1, func(context.Context) error { return store.Shared(texts...) })
		if err != nil {
			s.own.Error("cache: a purge of another process failed", "error", err)
		}
	}
}

// purger handles a POST at the debug address, which names what to purge.
func (s *server) purger() http.HandlerFunc {
	store := s.source.Cache // a reload changes source
	return func(w http.ResponseWriter, r *http.Request) {
		var p cache.Purge
		if err := json.NewDecoder(http.MaxBytesReader(w, r.Body, 1<<20)).Decode(&p); err != nil {
			http.Error(w, "expected what to purge as JSON: "+err.Error(), http.StatusBadRequest)
			return
		}
		if err := p.Check(); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		if store == nil {
			http.Error(w, "this server has no cache", http.StatusNotFound)
			return
		}
		if err := store.Purge(p); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		s.own.Info("cache purged", "urls", len(p.URLs), "prefixes", len(p.Prefixes), "tags", len(p.Tags),
			"all", p.All, "soft", p.Soft)
	}
}

const purgeUsage = `usage: lwango purge [-c FILE] [-d ADDRESS] [-soft] -all | URL...
       lwango purge [-c FILE] [-d ADDRESS] [-soft] [-prefix URL]... [-tag TAG]... [URL...]

Has a running server forget answers that it keeps for others (cache), in all processes that share a
broker: those of a URL, of all URLs that begin with a prefix, with a tag of Cache-Tag or
Surrogate-Key, or all.

  https://example.org/a?b=c   one URL; //example.org/a is for http and https
  -prefix https://example.org/shop/
  -tag product-7
  -all

  -soft       they become stale: they are asked for again, and may be sent until then
  -c FILE     configuration whose [debug] address the server answers at; without it, lwango.conf
  -d ADDRESS  that address: unix:/path of a socket, or host:port
`

// PurgeCache is the command purge with its arguments. It returns the exit code.
func PurgeCache(args []string, stderr io.Writer) int {
	var p cache.Purge
	c := newDebugCommand("purge", purgeUsage, stderr)
	c.BoolVar(&p.Soft, "soft", false, "")
	c.BoolVar(&p.All, "all", false, "")
	add := func(to *[]string) func(string) error {
		return func(s string) error { *to = append(*to, s); return nil }
	}
	c.Func("prefix", "", add(&p.Prefixes))
	c.Func("tag", "", add(&p.Tags))
	check := func(urls []string) error {
		p.URLs = urls
		return p.Check()
	}
	return c.run(args, check, func(client *http.Client) error {
		text, err := json.Marshal(p)
		if err != nil {
			return err
		}
		resp, err := checkAnswer(client.Post("http://localhost/debug/cache/purge", "application/json",
			bytes.NewReader(text)))
		if err == nil {
			resp.Body.Close()
		}
		return err
	})
}

// Cache returns the store of answers of the program's servers.
func (p *Program) Cache() *cache.Store {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.cacheLocked()
}

func (p *Program) cacheLocked() *cache.Store {
	if p.cache == nil {
		p.cache = cache.NewStore()
	}
	return p.cache
}
