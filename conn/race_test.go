//go:build race

package conn_test

func init() { raceEnabled = true }
