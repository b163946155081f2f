package conn_test

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"html/template"
	"log"
	"net/http"
	"net/url"
	"strings"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/internal/test/server"
)

// The fields of a form go to a struct. Which one is wrong, the client is told.
func ExampleRequest_BindForm() {
	h := func(req *conn.Request, resp *conn.Response) int {
		var guest struct {
			Name  string   `form:"name,required"`
			Seats int      `form:"seats"`
			Days  []string `form:"day"`
		}
		if err := req.BindForm(&guest); err != nil {
			return resp.Error(400, err)
		}
		return resp.Text(200, fmt.Sprintln(guest.Name, guest.Seats, guest.Days))
	}

	at, stop := server.StartExample(h)
	defer stop()
	server.Show(http.PostForm(at, url.Values{"name": {"Ada"}, "seats": {"2"}, "day": {"Mon", "Tue"}}))
	server.Show(http.PostForm(at, url.Values{"seats": {"2"}}))
	server.Show(http.Post(at, "text/plain", strings.NewReader("Ada")))
	// Output:
	// 200 OK
	// Ada 2 [Mon Tue]
	//
	// 400 Bad Request
	// field "name": missing
	//
	// 415 Unsupported Media Type
	// expected Content-Type application/x-www-form-urlencoded or multipart/form-data, not "text/plain"
}

// A page is made as a whole before anything goes out. What goes wrong in it is a 500.
func ExampleResponse_HTML() {
	page := template.Must(template.New("").Parse("<h1>{{.Title}}</h1>\n"))
	h := func(req *conn.Request, resp *conn.Response) int {
		return resp.HTML(200, page, struct{ Title string }{req.Query().Get("title")})
	}

	at, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(at + "?title=Tea+%26+cake"))
	// Output:
	// 200 OK
	// <h1>Tea &amp; cake</h1>
}

// After a POST, 303 lets the browser get the page of what it has made.
func ExampleResponse_Redirect() {
	h := func(req *conn.Request, resp *conn.Response) int {
		if req.Method() == "POST" {
			return resp.Redirect(303, "/items/7")
		}
		return resp.Text(200, "This is "+req.Path())
	}

	at, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Post(at+"/items", "", nil)) // follows the redirect by GET
	// Output:
	// 200 OK
	// This is /items/7
}

// The client reads what it has done wrong itself. What went wrong in here is for the log.
func ExampleResponse_Error() {
	h := func(req *conn.Request, resp *conn.Response) int {
		if req.Path() == "/items/x" {
			return resp.Error(404, errors.New("there is no item x"))
		}
		resp.Layer().OnError(func(_ *conn.Request, resp *conn.Response, status int) bool {
			resp.Text(status, "Please come back later.") // in place of the error page
			return true
		})
		return resp.Error(500, errors.New("no route to db7.internal"))
	}

	at, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(at + "/items/x"))
	server.Show(http.Get(at + "/items/1"))
	// Output:
	// 404 Not Found
	// there is no item x
	//
	// 500 Internal Server Error
	// Please come back later.
}

func ExampleResponse_SetCookie() {
	h := func(req *conn.Request, resp *conn.Response) int {
		if theme, ok := req.Cookie("theme"); ok {
			return resp.Text(200, "The theme is "+theme)
		}
		err := resp.SetCookie(&http.Cookie{
			Name: "theme", Value: "dark", Path: "/", MaxAge: 3600, HttpOnly: true,
			SameSite: http.SameSiteLaxMode,
		})
		if err != nil { // the name or the value cannot be sent
			return resp.Error(500, err)
		}
		return 204
	}

	at, stop := server.StartExample(h)
	defer stop()
	first, err := http.Get(at)
	if err != nil {
		log.Fatal(err)
	}
	first.Body.Close()
	fmt.Println(first.Header["Set-Cookie"])
	req, _ := http.NewRequest("GET", at, nil)
	req.AddCookie(first.Cookies()[0])
	server.Show(http.DefaultClient.Do(req))
	// Output:
	// [theme=dark; Path=/; Max-Age=3600; HttpOnly; SameSite=Lax]
	// 200 OK
	// The theme is dark
}

// A handler that asks for a password itself. For a route of a configuration, the setting auth does
// it.
func ExampleRequest_BasicAuth() {
	h := func(req *conn.Request, resp *conn.Response) int {
		name, password, ok := req.BasicAuth()
		if !ok || subtle.ConstantTimeCompare([]byte(name+":"+password), []byte("ada:secret")) != 1 {
			resp.Header().Set("WWW-Authenticate", `Basic realm="tea room", charset="UTF-8"`)
			return resp.Text(401, "Who is there?")
		}
		return resp.Text(200, "Welcome, "+name)
	}

	at, stop := server.StartExample(h)
	defer stop()
	server.Show(http.Get(at))
	req, _ := http.NewRequest("GET", at, nil)
	req.SetBasicAuth("ada", "secret")
	server.Show(http.DefaultClient.Do(req))
	// Output:
	// 401 Unauthorized
	// Who is there?
	// 200 OK
	// Welcome, ada
}

// What an answer depends on is for caches, which then keep one for each language.
func ExampleHeader_Vary() {
	h := func(req *conn.Request, resp *conn.Response) int {
		resp.Header().Vary("Accept-Language", "Cookie")
		resp.Header().Vary("accept-language") // a layer further in: it is there already
		if strings.HasPrefix(req.Header().Get("Accept-Language"), "de") {
			return resp.Text(200, "Guten Tag")
		}
		return resp.Text(200, "Good day")
	}

	at, stop := server.StartExample(h)
	defer stop()
	req, _ := http.NewRequest("GET", at, nil)
	req.Header.Set("Accept-Language", "de, en;q=0.5")
	answer, err := http.DefaultClient.Do(req)
	server.Show(answer, err)
	fmt.Println(answer.Header["Vary"])
	// Output:
	// 200 OK
	// Guten Tag
	// [Accept-Language Cookie]
}
