package auth_test

import (
	"fmt"
	"log"
	"net/http"
	"os"
	"path/filepath"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/internal/test/server"
)

// In the configuration of a site or a route:
//
//	auth = { realm = "garden", htpasswd = "users" }
//
// The file is as of `htpasswd -B`; here the password is "rose".
func ExampleNew() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	const users = "ann:$2y$04$mRw9Lvqgx7gcgDK872XWguENaCH9UOsojvpfZI3qDUm22JWwGyWcq\n"
	if err := os.WriteFile(filepath.Join(dir, "users"), []byte(users), 0o600); err != nil {
		log.Fatal(err)
	}
	login, err := auth.New(auth.Settings{Realm: "garden", Htpasswd: "users"}, handlers.Env{Dir: dir})
	if err != nil {
		log.Fatal(err)
	}
	garden := func(req *conn.Request, resp *conn.Response) int {
		return resp.Text(200, "Welcome, "+req.User())
	}

	url, stop := server.StartExample(login(garden))
	defer stop()
	for _, password := range []string{"daisy", "rose"} {
		req, err := http.NewRequest("GET", url, nil)
		if err != nil {
			log.Fatal(err)
		}
		req.SetBasicAuth("ann", password)
		answer, err := http.DefaultClient.Do(req)
		if err == nil && answer.StatusCode == 401 {
			answer.Body.Close() // a page of HTML
			fmt.Println(answer.Status, answer.Header.Get("WWW-Authenticate"))
			continue
		}
		server.Show(answer, err)
	}
	// Output:
	// 401 Unauthorized Basic realm="garden", charset="UTF-8"
	// 200 OK
	// Welcome, ann
}
