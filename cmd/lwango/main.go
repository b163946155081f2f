// Lwango is the web server: it serves what lwango.conf in the working directory says. Run it with
// -h for its flags. `lwango top` shows a running one in a terminal.
package main

import (
	"os"

	"github.com/lwango/lwango/internal/command"
)

func main() { os.Exit(command.Main()) }
