package main

import (
	"context"
	"crypto/subtle"
	"database/sql"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/lwango/lwango"
)

// item is a row of the table, and an answer.
type item struct {
	ID      int64  `json:"id"`
	Name    string `json:"name"`
	Price   int64  `json:"price"`   // in cents
	Version int64  `json:"version"` // counts the changes from 1
}

// input is what a client says of an item.
type input struct {
	Name  string `json:"name"`
	Price int64  `json:"price"`
}

// open opens the database. A writer waits up to two seconds for another one.
func open(file string) (*sql.DB, error) {
	path := (&url.URL{Path: file}).EscapedPath()
	db, err := sql.Open("sqlite", "file:"+path+
		"?_pragma=busy_timeout(2000)&_pragma=journal_mode(WAL)&_pragma=synchronous(NORMAL)")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(8) // the functions of further requests wait for one of these
	db.SetMaxIdleConns(8)
	if _, err = db.Exec(`CREATE TABLE IF NOT EXISTS items (
		id INTEGER PRIMARY KEY AUTOINCREMENT, name TEXT NOT NULL,
		price INTEGER NOT NULL, version INTEGER NOT NULL DEFAULT 1)`); err != nil {
		db.Close()
		return nil, err
	}
	return db, nil
}

// items serves the table.
type items struct{ db *sql.DB }

// routes are those of the service. With a token, changes need it.
func routes(db *sql.DB, token string) *lwango.Mux {
	s := &items{db}
	mux := lwango.NewMux()
	mux.Handle("GET /items", s.list)
	mux.Handle("GET /items/{id}", s.get)
	changes := mux.Group("", needs(token))
	changes.Handle("POST /items", s.add)
	changes.Handle("PUT /items/{id}", s.set)
	changes.Handle("DELETE /items/{id}", s.remove)
	return mux
}

// needs is middleware that asks for a token, unless that is "".
func needs(token string) lwango.Middleware {
	want := []byte("Bearer " + token)
	return func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			has := []byte(req.Header().Get("Authorization"))
			if token != "" && subtle.ConstantTimeCompare(has, want) != 1 {
				resp.Header().Set("WWW-Authenticate", "Bearer")
				return resp.Error(http.StatusUnauthorized, errors.New("a token is missing"))
			}
			return next(req, resp)
		}
	}
}

// limit is for how long a request may wait for the database.
const limit = 5 * time.Second

const columns = "id, name, price, version"

// one runs a statement that returns an item, off the loop: the driver may block.
func (s *items) one(req *lwango.Request, statement string, args ...any) (item, error) {
	return lwango.Await(req, limit, func(ctx context.Context) (it item, err error) {
		row := s.db.QueryRowContext(ctx, statement, args...)
		err = row.Scan(&it.ID, &it.Name, &it.Price, &it.Version)
		return it, err
	})
}

// failed answers a request whose statement has failed.
func failed(resp *lwango.Response, err error) int {
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return resp.Error(http.StatusNotFound, errors.New("there is no such item"))
	case errors.Is(err, lwango.ErrDeadlineExceeded):
		return resp.Error(http.StatusServiceUnavailable, err)
	}
	return resp.Error(http.StatusInternalServerError, err)
}

// answer sends an item, with its version as the tag.
func answer(resp *lwango.Response, status int, it item) int {
	resp.Header().Set("ETag", tag(it))
	return resp.JSON(status, it)
}

func tag(it item) string { return fmt.Sprintf(`"%d"`, it.Version) }

// list answers with a page of items: ?after=ID&limit=N. next is the address of the page behind it.
func (s *items) list(req *lwango.Request, resp *lwango.Response) int {
	page := struct {
		After int64 `form:"after"`
		Limit int   `form:"limit"`
	}{Limit: 20}
	if err := req.BindQuery(&page); err != nil {
		return resp.Error(http.StatusBadRequest, err)
	}
	if page.Limit < 1 || page.Limit > 100 {
		return resp.Error(http.StatusBadRequest, errors.New("limit: expected 1 to 100"))
	}
	found, err := lwango.Await(req, limit, func(ctx context.Context) ([]item, error) {
		rows, err := s.db.QueryContext(ctx, "SELECT "+columns+
			" FROM items WHERE id > ? ORDER BY id LIMIT ?", page.After, page.Limit+1)
		if err != nil {
			return nil, err
		}
		defer rows.Close()
		all := []item{} // in JSON: [], and not null
		for rows.Next() {
			var it item
			if err := rows.Scan(&it.ID, &it.Name, &it.Price, &it.Version); err != nil {
				return nil, err
			}
			all = append(all, it)
		}
		return all, rows.Err()
	})
	if err != nil {
		return failed(resp, err)
	}
	var out struct {
		Items []item `json:"items"`
		Next  string `json:"next,omitempty"`
	}
	if out.Items = found; len(found) > page.Limit {
		out.Items = found[:page.Limit]
		out.Next = fmt.Sprintf("/items?after=%d&limit=%d", found[page.Limit-1].ID, page.Limit)
	}
	return resp.JSON(http.StatusOK, out)
}

// get answers 304 to a client that has the item already, and says so by the tag that it got.
func (s *items) get(req *lwango.Request, resp *lwango.Response) int {
	it, err := s.one(req, "SELECT "+columns+" FROM items WHERE id = ?", req.PathValue("id"))
	if err != nil {
		return failed(resp, err)
	}
	if status := resp.Precondition(tag(it), time.Time{}); status != 0 {
		return status
	}
	return answer(resp, http.StatusOK, it)
}

func (s *items) add(req *lwango.Request, resp *lwango.Response) int {
	in, status := read(req, resp)
	if status != 0 {
		return status
	}
	it, err := s.one(req, "INSERT INTO items (name, price) VALUES (?, ?) RETURNING "+columns,
		in.Name, in.Price)
	if err != nil {
		return failed(resp, err)
	}
	resp.Header().Set("Location", fmt.Sprint("/items/", it.ID))
	return answer(resp, http.StatusCreated, it)
}

// set changes an item; with If-Match, only if nobody has changed it since the client got that tag.
func (s *items) set(req *lwango.Request, resp *lwango.Response) int {
	in, status := read(req, resp)
	if status != 0 {
		return status
	}
	match := req.Header().Get("If-Match")
	it, err := s.one(req, `UPDATE items SET name = ?, price = ?, version = version + 1
		WHERE id = ? AND ? IN ('', '*', '"' || version || '"') RETURNING `+columns,
		in.Name, in.Price, req.PathValue("id"), match)
	if match != "" && errors.Is(err, sql.ErrNoRows) { // RFC 9110 section 13.1.1
		return resp.Error(http.StatusPreconditionFailed, errors.New("there is no such version"))
	} else if err != nil {
		return failed(resp, err)
	}
	return answer(resp, http.StatusOK, it)
}

func (s *items) remove(req *lwango.Request, resp *lwango.Response) int {
	if _, err := s.one(req, "DELETE FROM items WHERE id = ? RETURNING "+columns,
		req.PathValue("id")); err != nil {
		return failed(resp, err)
	}
	return http.StatusNoContent
}

// read reads an item of the body. If that is wrong, it answers and returns the status, else 0.
func read(req *lwango.Request, resp *lwango.Response) (in input, status int) {
	err := req.BindJSONStrictly(&in)
	if err == nil && (in.Name == "" || len(in.Name) > 200 || in.Price < 0) {
		err = errors.New("expected a name of 1 to 200 bytes, and a price of 0 or more")
	}
	if err != nil {
		return in, resp.Error(http.StatusBadRequest, err)
	}
	return in, 0
}
