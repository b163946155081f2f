//go:build race

package fastcgi_test

// underRace: the race detector has memory of its own for every stack.
const underRace = true
