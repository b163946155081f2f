package tasks

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// The paths of the works about routes.
const (
	ItemPath  = "/api/items/4711"
	ItemRoute = "/api/items/{id}" // in ServeMux's and in chi's language
	PartRoute = "/items/{id}/parts/{part}"
)

// Item is what a REST service answers with. Item 4711 is 1 KiB of JSON with its newline.
type Item struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Text     string    `json:"text"`
	Price    int64     `json:"price"`
	Weight   float64   `json:"weight"`
	InStock  bool      `json:"in_stock"`
	Tags     []string  `json:"tags"`
	Made     time.Time `json:"made"`
	Parts    []Part    `json:"parts"`
	Supplier *Supplier `json:"supplier,omitempty"`
}

// Part is one of an Item's.
type Part struct {
	ID    int    `json:"id"`
	Name  string `json:"name"`
	Count int    `json:"count"`
}

// Supplier is an Item's.
type Supplier struct {
	Name string `json:"name"`
	Town string `json:"town"`
}

// Items are all there are, in the place of a database. They do not change.
var Items = func() map[string]*Item {
	all := make(map[string]*Item)
	for id := 4700; id < 4800; id++ {
		it := &Item{
			ID: fmt.Sprint(id), Name: fmt.Sprint("Item ", id), Price: 1999, Weight: 12.75, InStock: true,
			Tags: []string{"garden", "tools", "new"}, Made: time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC),
			Supplier: &Supplier{"Miller & Sons", "Springfield"},
		}
		for i := range 8 {
			it.Parts = append(it.Parts, Part{i, fmt.Sprint("part number ", i), i + 1})
		}
		it.Text = strings.Repeat("This is what it is good for. ", 30)
		it.Text = it.Text[:len(it.Text)-(len(JSON(it))-1<<10)]
		all[it.ID] = it
	}
	return all
}()

// JSON is an answer with v.
func JSON(v any) []byte {
	text, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return append(text, '\n')
}

// Routes are 200 patterns for GET and POST, one of which is PartRoute.
func Routes() (all []string) {
	for i := range 49 {
		for _, of := range []string{"GET /kind%d", "POST /kind%d", "GET /kind%d/{id}",
			"GET /kind%d/{id}/parts/{part}"} {
			all = append(all, fmt.Sprintf(of, i))
		}
	}
	return append(all, "GET /items", "POST /items", "GET /items/{id}", "GET "+PartRoute)
}
