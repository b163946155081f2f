package rules_test

import (
	"fmt"
	"log"
	"net/http"

	"github.com/lwango/lwango/conn"
	"github.com/lwango/lwango/handlers"
	"github.com/lwango/lwango/handlers/rules"
	"github.com/lwango/lwango/internal/test/server"
)

// A rule that refuses what it matches. In the configuration:
//
//	[[site.rule]]
//	path = ["/private/**"]
//	deny = 403
func ExampleCompile() {
	set, err := rules.Compile([]rules.Rule{{
		Settings: rules.Settings{
			Conditions: rules.Conditions{Path: []string{"/private/**"}},
			Deny:       403,
		},
	}}, "", handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}
	hello := func(_ *conn.Request, resp *conn.Response) int { return resp.Text(200, "Hello") }

	url, stop := server.StartExample(set.Middleware()(hello))
	defer stop()
	for _, path := range []string{"/", "/private/diary"} {
		answer, err := http.Get(url + path)
		if err != nil {
			log.Fatal(err)
		}
		answer.Body.Close()
		fmt.Println(path, answer.Status)
	}
	// Output:
	// / 200 OK
	// /private/diary 403 Forbidden
}

// What `lwango -t -u URL` says of a request.
func ExampleSet_Explain() {
	set, err := rules.Compile([]rules.Rule{{
		Name: "rule 1",
		Settings: rules.Settings{
			Conditions: rules.Conditions{Regexp: "^/page/(?<name>.+)$"},
			Rewrite:    "/doku.php?id={name}",
		},
	}}, "", handlers.Env{})
	if err != nil {
		log.Fatal(err)
	}
	request := &rules.Sample{Host: "example.org", Path: "/page/roses"}
	set.Explain(request, func(text string) { fmt.Println(text) })
	fmt.Printf("%s %s\n", request.Path, request.Query)
	// Output:
	// rule 1: rewrites to /doku.php?id=roses (regexp wants ^/page/(?<name>.+)$, the path is "/page/roses")
	// /doku.php id=roses
}
