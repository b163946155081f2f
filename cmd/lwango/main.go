// Lwango is the web server: it serves what lwango.conf in the working directory says. Run it with -h for its flags.
package main

import "github.com/lwango/lwango"

func main() { lwango.Main() }
