// Database serves items from PostgreSQL and from Redis, by four drivers. Three of them run off the
// loops, and one on the green threads of the requests.
package main

import (
	"context"
	"errors"
	"flag"
	"io"
	"log/slog"
	"os"
	"strconv"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/loop"
)

func main() {
	postgres := flag.String("postgres", "", "a PostgreSQL's `URL`")
	redis := flag.String("redis", "", "a Redis's `ADDRESS`")
	limit := flag.Duration("limit", 2*time.Second, "how long a request may wait for a database")
	lwango.ParseFlags()
	s, err := open(context.Background(), *postgres, *redis)
	if err != nil {
		slog.Error("a database cannot be used", "error", err)
		os.Exit(1)
	}
	lwango.Handle("/", s.mux(*limit).Serve)
	lwango.Main()
}

// An item is a row of the table, and what Redis has under its number.
type item struct {
	ID   int64  `json:"id"`
	Name string `json:"name"`
}

var errNone = errors.New("there is no such item")

// A driver is a way to an item, within a limit of time.
type driver struct {
	limit time.Duration
	find  func(req *lwango.Request, limit time.Duration, id int64) (item, error)
	save  func(req *lwango.Request, limit time.Duration, it item) error
}

func (s *stores) mux(limit time.Duration) *lwango.Mux {
	mux := lwango.NewMux()
	for name, d := range map[string]driver{
		"sql":    offLoop(s.findSQL, s.saveSQL),
		"pgx":    offLoop(s.findPgx, s.savePgx),
		"redis":  offLoop(s.findRedis, s.saveRedis),
		"thread": {find: s.conns.find, save: s.conns.save},
	} {
		d.limit = limit
		mux.Handle("GET /"+name+"/items/{id}", d.get)
		mux.Handle("PUT /"+name+"/items/{id}", d.put)
	}
	mux.Handle("GET /both/items/{id}", s.both(limit))
	return mux
}

// offLoop makes a driver of functions that block, as nearly every library's do. They take a
// context, and need nothing else of the request.
func offLoop(
	find func(context.Context, int64) (item, error), save func(context.Context, item) error,
) driver {
	return driver{
		find: func(req *lwango.Request, limit time.Duration, id int64) (item, error) {
			return lwango.Await(req, limit, func(ctx context.Context) (item, error) {
				return find(ctx, id)
			})
		},
		save: func(req *lwango.Request, limit time.Duration, it item) error {
			_, err := lwango.Await(req, limit, func(ctx context.Context) (none struct{}, err error) {
				return none, save(ctx, it)
			})
			return err
		},
	}
}

func (d driver) get(req *lwango.Request, resp *lwango.Response) int {
	id, err := strconv.ParseInt(req.PathValue("id"), 10, 64)
	if err != nil {
		return resp.Error(400, err)
	}
	it, err := d.find(req, d.limit, id)
	if err != nil {
		return failed(resp, err)
	}
	return resp.JSON(200, it)
}

// maxName is how long a name may be, in bytes.
const maxName = 1 << 10

func (d driver) put(req *lwango.Request, resp *lwango.Response) int {
	id, err := strconv.ParseInt(req.PathValue("id"), 10, 64)
	if err != nil {
		return resp.Error(400, err)
	}
	req.Body().SetLimit(maxName)
	name, err := io.ReadAll(req.Body())
	if err != nil {
		return resp.Error(400, err)
	}
	if err := d.save(req, d.limit, item{id, string(name)}); err != nil {
		return failed(resp, err)
	}
	return 204
}

// both asks PostgreSQL and Redis at the same time.
func (s *stores) both(limit time.Duration) lwango.Handler {
	return func(req *lwango.Request, resp *lwango.Response) int {
		id, err := strconv.ParseInt(req.PathValue("id"), 10, 64)
		if err != nil {
			return resp.Error(400, err)
		}
		ask := func(find func(context.Context, int64) (item, error)) *loop.Promise[item] {
			return lwango.Call(req, limit, func(ctx context.Context) (item, error) { return find(ctx, id) })
		}
		items, errs := loop.Collect(req.Thread, limit, ask(s.findPgx), ask(s.findRedis))
		if err := errors.Join(errs...); err != nil {
			return failed(resp, err)
		}
		return resp.JSON(200, items)
	}
}

// failed is the answer where there is no item.
func failed(resp *lwango.Response, err error) int {
	switch {
	case errors.Is(err, errNone):
		return resp.Error(404, err)
	case errors.Is(err, lwango.ErrNoWorker):
		return 503 // too many requests wait for the databases
	case errors.Is(err, lwango.ErrDeadlineExceeded):
		return 504
	}
	return resp.Error(502, err) // which logs it, unless the client has left
}
