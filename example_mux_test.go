package lwango_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"time"

	"github.com/lwango/lwango"
	"github.com/lwango/lwango/client"
	"github.com/lwango/lwango/internal/test/server"
)

// A service with patterns, middleware for all of it and for a part of it, and JSON both ways.
func ExampleNewMux() {
	type item struct {
		Name  string `json:"name"`
		Price int    `json:"price"`
	}
	items := map[string]item{"7": {"lamp", 30}} // of this example's one loop: no lock

	mux := lwango.NewMux()
	mux.Use(func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			status := next(req, resp)
			fmt.Println(req.Pattern(), status)
			return status
		}
	})
	mux.Handle("GET /items/{id}", func(req *lwango.Request, resp *lwango.Response) int {
		found, ok := items[req.PathValue("id")]
		if !ok {
			return resp.Error(404, errors.New("there is no such item"))
		}
		return resp.JSON(200, found)
	})
	staffOnly := func(next lwango.Handler) lwango.Handler {
		return func(req *lwango.Request, resp *lwango.Response) int {
			if req.Header().Get("X-Staff") == "" {
				return 403
			}
			return next(req, resp)
		}
	}
	mux.Group("/admin", staffOnly).Handle("PUT /items/{id}",
		func(req *lwango.Request, resp *lwango.Response) int {
			var in item
			if err := req.BindJSON(&in); err != nil {
				return resp.Error(400, err)
			}
			items[req.PathValue("id")] = in
			return 204
		})

	url, stop := server.Serve(mux.Serve) // in a program: lwango.ListenAndServe(ctx, address, mux)
	defer stop()
	put := func(body string) {
		req, _ := http.NewRequest("PUT", url+"/admin/items/8", strings.NewReader(body))
		req.Header.Set("X-Staff", "Ann")
		req.Header.Set("Content-Type", "application/json")
		server.Show(http.DefaultClient.Do(req))
	}
	server.Show(http.Get(url + "/items/7"))
	put(`{"name": "chair", "price": "cheap"}`)
	put(`{"name": "chair", "price": 45}`)
	server.Show(http.Get(url + "/items/8"))
	// Output:
	// GET /items/{id} 200
	// 200 OK
	// {"name":"lamp","price":30}
	//
	// PUT /admin/items/{id} 400
	// 400 Bad Request
	// JSON, line 1, column 34: field "price": expected an integer, not string
	//
	// PUT /admin/items/{id} 204
	// 204 No Content
	//
	// GET /items/{id} 200
	// 200 OK
	// {"name":"chair","price":45}
}

// A handler that asks another server, and passes its answer on as it comes.
func ExampleGet() {
	weather := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprint(w, "rain")
	}))
	defer weather.Close()

	h := func(req *lwango.Request, resp *lwango.Response) int {
		answer, err := lwango.Get(req, weather.URL, 10*time.Second)
		switch {
		case errors.Is(err, client.ErrConnect):
			return resp.Error(502, err)
		case err != nil:
			return resp.Error(504, err)
		}
		resp.WriteString("Today: ")
		if _, err := io.Copy(resp, answer.Body); err != nil {
			resp.Abort()
		}
		return 200
	}

	url, stop := server.Serve(h)
	defer stop()
	server.Show(http.Get(url))
	// Output:
	// 200 OK
	// Today: rain
}
