// Lwango is the web server. It reads lwango.conf in the working directory. The flag -h lists its
// flags. `lwango top` shows a running server in a terminal.
package main

import (
	"os"

	"github.com/lwango/lwango/internal/command"
)

func main() { os.Exit(command.Main()) }
