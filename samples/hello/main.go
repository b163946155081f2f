// Hello greets every client.
package main

import "github.com/lwango/lwango"

func main() {
	lwango.Handle("/", hello)
	lwango.Main()
}

func hello(req *lwango.Request, resp *lwango.Response) int {
	resp.Header().Set("Content-Type", "text/plain; charset=utf-8")
	resp.WriteString("Hello from " + req.Path() + "\n")
	return 200
}
