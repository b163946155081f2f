// Rest keeps items in a file of SQLite, and serves them as JSON.
package main

import (
	"context"
	"flag"
	"log"
	"os"

	"github.com/lwango/lwango"
)

func main() {
	file := flag.String("db", "items.db", "the database's `file`, which is made if there is none")
	token := flag.String("token", "", "`text` that clients who change items must send: "+
		"Authorization: Bearer TEXT")
	lwango.ParseFlags()
	db, err := open(*file)
	if err != nil {
		log.Fatalf("%s: %v", *file, err)
	}
	lwango.Handle("/", routes(db, *token).Serve)
	code := lwango.Run(context.Background(), "")
	if err := db.Close(); err != nil {
		log.Fatalf("%s: %v", *file, err)
	}
	os.Exit(code)
}
