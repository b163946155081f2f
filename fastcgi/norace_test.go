//go:build !race

package fastcgi_test

const underRace = false
