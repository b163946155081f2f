// Package settings turns TOML text into typed structs and says, for everything that is wrong with
// the text, on which line it is wrong.
//
// The toml package alone cannot do this: its Undecoded has no lines and reports a wrong key once,
// however many [[tables]] have it. So the text is decoded into plain maps first, each table is then
// checked against the keys of the struct it belongs to, and lines come from a scan of the text that
// this package makes itself. All errors of a file are collected and reported together, in the order
// of their lines: a user should not have to start the program once for each mistake.
//
// The same code fills the program's own configuration and the settings of every module, so a
// module's author gets checked types, ranges and good messages for a struct with tags:
//
//	type settings struct {
//		Path  string        `toml:"path"`
//		Wait  time.Duration `toml:"wait" min:"1ms" max:"1h"`
//		Mode  string        `toml:"mode" oneof:"fast safe"`
//		Names []string      `toml:"names"` // one string, or a list of them
//	}
//
// A map of the files:
//
//	file.go     File and Table: parse, decode, report
//	changes.go  Changes: how a file differs from the one before
//	include.go  further files; variables of the environment, texts of files
//	inherit.go  keys of a table for other tables, too
//	decode.go   one table into one struct, by reflection
//	inforce.go  the settings in force: the texts and the defaults
//	values.go   single values: types, ranges, the words for them in messages
//	lines.go    the scan: on which line each key stands
//	errors.go   Error and Errors
//	suggest.go  "did you mean"
//
// Nothing here is safe for use from several goroutines at once; a file is read by one.
package settings
