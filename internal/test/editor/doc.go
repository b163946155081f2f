// Package editor has the test of WordPress's editor in a browser, which TestWordPress of package
// fastcgi runs: LWANGO_EDITOR is the address of the site, and LWANGO_EDITOR_COOKIES, a JSON array
// of http.Cookie, is who is logged in.
package editor
