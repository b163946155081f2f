// Lwangoapp is lwango with handlers of its own: the benchmark's works that need one run it in place of the command.
package main

import "github.com/lwango/lwango"

func main() {
	lwango.Handle("/sleep", sleep)
	lwango.Main()
}
