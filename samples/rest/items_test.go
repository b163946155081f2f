package main

import (
	"database/sql"
	"encoding/json"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/lwangotest"
)

const asJSON = "Content-Type: application/json"

// start serves an empty table.
func start(t *testing.T, token string) (*lwangotest.Server, *sql.DB) {
	t.Helper()
	db := must.Get(open(filepath.Join(t.TempDir(), "a b%20c.db")))(t)
	t.Cleanup(func() { db.Close() })
	return lwangotest.Start(t, routes(db, token).Serve), db
}

// want compares an answer: its status, and its body unless text is "".
func want(t *testing.T, a lwangotest.Answer, status int, text string) {
	t.Helper()
	if got := strings.TrimSpace(a.Text); a.StatusCode != status || text != "" && got != text {
		t.Errorf("%s %s: %s: %s\nwant %d: %s",
			a.Request.Method, a.Request.URL, a.Status, got, status, text)
	}
}

func TestItem(t *testing.T) {
	s, _ := start(t, "")
	a := s.Do("POST", "/items", `{"name": "tea", "price": 350}`, asJSON)
	want(t, a, 201, `{"id":1,"name":"tea","price":350,"version":1}`)
	item := a.Header.Get("Location")
	want(t, s.Get(item), 200, `{"id":1,"name":"tea","price":350,"version":1}`)
	want(t, s.Do("PUT", item, `{"name": "coffee"}`, asJSON), 200,
		`{"id":1,"name":"coffee","price":0,"version":2}`)
	want(t, s.Do("DELETE", item, ""), 204, "")
	want(t, s.Get(item), 404, "there is no such item")
	want(t, s.Do("DELETE", item, ""), 404, "there is no such item")
	want(t, s.Do("PUT", item, `{"name": "tea"}`, asJSON), 404, "there is no such item")
	want(t, s.Do("PATCH", item, ""), 405, "")
}

func TestConditions(t *testing.T) {
	s, _ := start(t, "")
	tag := s.Do("POST", "/items", `{"name": "tea"}`, asJSON).Header.Get("ETag")
	want(t, s.Get("/items/1", "If-None-Match: "+tag), 304, "")
	want(t, s.Get("/items/1", "If-None-Match: W/"+tag), 304, "") // of a compressed answer
	const coffee, milk, refused = `{"name": "coffee"}`, `{"name": "milk"}`, "there is no such version"
	want(t, s.Do("PUT", "/items/1", coffee, asJSON, "If-Match: "+tag), 200, "")
	want(t, s.Do("PUT", "/items/1", milk, asJSON, "If-Match: "+tag), 412, refused)
	want(t, s.Do("PUT", "/items/2", milk, asJSON, "If-Match: *"), 412, refused)
	want(t, s.Get("/items/1", "If-None-Match: "+tag), 200,
		`{"id":1,"name":"coffee","price":0,"version":2}`)
}

func TestPages(t *testing.T) {
	s, _ := start(t, "")
	want(t, s.Get("/items"), 200, `{"items":[]}`)
	for i := range 5 {
		want(t, s.Do("POST", "/items", fmt.Sprintf(`{"name": "%d"}`, i), asJSON), 201, "")
	}
	var seen []int64
	for next := "/items?limit=2"; next != ""; {
		var page struct {
			Items []item
			Next  string
		}
		must.Do(t, json.Unmarshal([]byte(s.Get(next).Text), &page))
		for _, it := range page.Items {
			seen = append(seen, it.ID)
		}
		next = page.Next
	}
	if fmt.Sprint(seen) != "[1 2 3 4 5]" {
		t.Errorf("items %v", seen)
	}
}

func TestBadInput(t *testing.T) {
	s, _ := start(t, "")
	const expected = "expected a name of 1 to 200 bytes, and a price of 0 or more"
	for body, text := range map[string]string{
		"":                             "expected JSON, not an empty body",
		`{"name": `:                    "JSON, line 1, column 10: unexpected end of JSON input",
		`{"name": 7}`:                  "",
		`{"nmae": "tea"}`:              `JSON: unknown field "nmae"`,
		`{"name": ""}`:                 expected,
		`{"name": "tea", "price": -1}`: expected,
		`{"name": "tea"} {}`:           "",
	} {
		want(t, s.Do("POST", "/items", body, asJSON), 400, text)
	}
	want(t, s.Do("POST", "/items", `{"name": "tea"}`), 415, "")
	want(t, s.Get("/items?limit=0"), 400, "limit: expected 1 to 100")
	want(t, s.Get("/items?after=x"), 400, "")
	want(t, s.Get("/items/x%2F1"), 404, "there is no such item")
	want(t, s.Get("/items"), 200, `{"items":[]}`)
}

func TestToken(t *testing.T) {
	s, _ := start(t, "secret")
	want(t, s.Do("POST", "/items", `{"name": "tea"}`, asJSON), 401, "a token is missing")
	want(t, s.Do("POST", "/items", `{"name": "tea"}`, asJSON, "Authorization: Bearer secret"), 201, "")
	want(t, s.Do("DELETE", "/items/1", "", "Authorization: Bearer secrets"), 401, "a token is missing")
	want(t, s.Get("/items/1"), 200, "")
}

// Writers at the same time wait for each other, and none is lost.
func TestWriters(t *testing.T) {
	s, _ := start(t, "")
	want(t, s.Do("POST", "/items", `{"name": "tea"}`, asJSON), 201, "")
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() {
			for range 5 {
				req, err := http.NewRequest("PUT", s.URL+"/items/1", strings.NewReader(`{"name": "tea"}`))
				if err != nil {
					t.Error(err)
					return
				}
				req.Header.Set("Content-Type", "application/json")
				resp, err := s.Client().Do(req)
				if err != nil {
					t.Error(err)
					return
				}
				resp.Body.Close()
				if resp.StatusCode != 200 {
					t.Error(resp.Status)
				}
			}
		})
	}
	all.Wait()
	want(t, s.Get("/items/1"), 200, `{"id":1,"name":"tea","price":0,"version":51}`)
}

// A database that fails is a 500 for the client, and what is wrong is in the log.
func TestBroken(t *testing.T) {
	s, db := start(t, "")
	db.Close()
	a := s.Get("/items/1")
	if a.StatusCode != 500 || strings.Contains(a.Text, "database") ||
		!strings.Contains(s.Log(), "database is closed") {
		t.Errorf("%s: %s\n%s", a.Status, a.Text, s.Log())
	}
}
