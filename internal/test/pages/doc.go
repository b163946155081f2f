// Package pages tests in a browser what pages of modules look like. The tests of a module that is
// in every program must not import a browser: go mod tidy of those programs would download it.
package pages
