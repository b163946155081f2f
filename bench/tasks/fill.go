package tasks

import (
	"slices"
	"strings"
	"time"
)

// A room that fills tells its members who is there: a newcomer gets the list once, and all get
// those who have come since, as rarely as FillGap says. Each text is a letter and names with a
// comma between.
const (
	FillPath   = "/ws-fill" // ?room=R&name=N
	FillList   = '='        // all who are there
	FillJoined = '+'        // who has come
)

// FillGap is how long after the change before a room of n members tells who has come: as lwango's
// Presence does.
func FillGap(n int) time.Duration { return min(time.Duration(n)*50*time.Microsecond, time.Second) }

// FillSoon is how long newcomers are gathered at least.
const FillSoon = 5 * time.Millisecond

// FillText is what members are told.
func FillText(kind byte, names []string) []byte {
	return append([]byte{kind}, strings.Join(names, ",")...)
}

// Filled returns the kind of a text and its names.
func Filled(text string) (kind byte, names []string) {
	if text == "" {
		return 0, nil
	}
	names = strings.Split(text[1:], ",")
	return text[0], slices.DeleteFunc(names, func(name string) bool { return name == "" })
}
