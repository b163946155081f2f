//go:build race

package websocket_test

func init() { raceEnabled = true }
