package main

import (
	"bytes"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Every file is asked for, and what comes is its length.
func TestLoadCold(t *testing.T) {
	root := t.TempDir()
	check(os.Mkdir(filepath.Join(root, coldPath), 0o755))
	for i := range coldFiles {
		writeCold(coldFile(root, i))
	}
	addr := startHandler(t, http.FileServer(http.Dir(root)))
	j := jobAt(addr, coldFiles, 1, 200, 50*time.Millisecond)
	j.Root = root
	if f, err := attempt(loadCold, j); err != nil || f["disk"] < 0 {
		t.Errorf("%v, %v", f, err)
	}
	check(os.WriteFile(coldFile(root, coldFiles-1), bytes.Repeat([]byte("x"), coldSize-1), 0o644))
	if _, err := attempt(loadCold, j); err == nil ||
		!strings.Contains(err.Error(), "/cold/3.bin: 4194303 bytes") {
		t.Errorf("a short file: %v", err)
	}
	j.Conns++
	if _, err := attempt(loadCold, j); err == nil {
		t.Error("two connections share a file")
	}
}
