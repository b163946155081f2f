package conn_test

import (
	"fmt"
	"io"
	"mime/multipart"
	"net/http"
	"strings"
	"time"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/server"
)

// JSON comes in, and JSON goes out. What the client has sent wrong, the client is told.
func ExampleRequest_BindJSON() {
	h := func(req *conn.Request, resp *conn.Response) int {
		var order struct {
			Tea  string `json:"tea"`
			Cups int    `json:"cups"`
		}
		if err := req.BindJSON(&order); err != nil {
			return resp.Error(400, err)
		}
		return resp.JSON(201, map[string]string{"order": fmt.Sprint(order.Cups, " cups of ", order.Tea)})
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Post(url, "application/json", strings.NewReader(`{"tea": "oolong", "cups": 2}`)))
	server.Show(http.Post(url, "application/json",
		strings.NewReader(`{"tea": "oolong", "cups": "two"}`)))
	// Output:
	// 201 Created
	// {"order":"2 cups of oolong"}
	//
	// 400 Bad Request
	// JSON, line 1, column 31: field "cups": expected an integer, not string
}

func ExampleRequest_BindQuery() {
	h := func(req *conn.Request, resp *conn.Response) int {
		in := struct {
			Text string   `form:"q,required"`
			Page int      `form:"page"`
			Tags []string `form:"tag"`
		}{Page: 1}
		if err := req.BindQuery(&in); err != nil {
			return resp.Error(400, err)
		}
		return resp.Text(200, fmt.Sprintf("%s, page %d, %q", in.Text, in.Page, in.Tags))
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url + "?q=tea&tag=green&tag=loose"))
	server.Show(http.Get(url + "?q=tea&page=two"))
	// Output:
	// 200 OK
	// tea, page 1, ["green" "loose"]
	// 400 Bad Request
	// field "page": expected an integer, not "two"
}

// The parts of a form are read as they come. None of them is kept.
func ExampleRequest_Parts() {
	h := func(req *conn.Request, resp *conn.Response) int {
		for part, err := range req.Parts() {
			if err != nil {
				return resp.Error(400, err)
			}
			n, err := io.Copy(io.Discard, part)
			if err != nil {
				return resp.Error(400, err)
			}
			fmt.Fprintf(resp, "%s: %d bytes\n", part.FileName(), n)
		}
		return 200
	}

	url, stop := server.StartExample(h)
	defer stop()
	r, w := io.Pipe()
	form := multipart.NewWriter(w)
	go func() {
		file, _ := form.CreateFormFile("photo", "cat.jpg")
		_, _ = file.Write(make([]byte, 100_000))
		_ = form.Close()
		w.Close()
	}()
	server.Show(http.Post(url, form.FormDataContentType(), r))
	// Output:
	// 200 OK
	// cat.jpg: 100000 bytes
}

// A client that has the present state of something does not get it again.
func ExampleResponse_Precondition() {
	version, changed := `"v7"`, time.Date(2026, 11, 22, 0, 0, 0, 0, time.UTC)
	h := func(req *conn.Request, resp *conn.Response) int {
		if status := resp.Precondition(version, changed); status != 0 {
			return status
		}
		return resp.Text(200, "The seventh version.")
	}

	url, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(url))
	req, _ := http.NewRequest("GET", url, nil)
	req.Header.Set("If-None-Match", version)
	server.Show(http.DefaultClient.Do(req))
	// Output:
	// 200 OK
	// The seventh version.
	// 304 Not Modified
}

// What can be read at any place is sent in the parts that clients ask for.
func ExampleResponse_ServeContent() {
	text := "In the beginning was the word, and at the end, too."
	h := func(req *conn.Request, resp *conn.Response) int {
		resp.Header().Set("ETag", `"first-edition"`)
		return resp.ServeContent("word.txt", time.Time{}, strings.NewReader(text), int64(len(text)))
	}

	url, stop := server.StartExample(h)
	defer stop()
	req, _ := http.NewRequest("GET", url, nil)
	req.Header.Set("Range", "bytes=7-15")
	server.Show(http.DefaultClient.Do(req))
	// Output:
	// 206 Partial Content
	// beginning
}
