package server

// Usage is what the flag -h prints.
const Usage = usage

// Defaults returns a pointer to the struct of a whole configuration, with the defaults of an empty
// file. It is for what describes the configuration: the tags of its fields are the keys.
func Defaults() any { return defaults() }
