package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// Profile reports whether s is asked for profiles: lwango's command, where -profile is given.
func (s *server) Profile() bool {
	return s.env.profile != "" && s.Peer.isLwango() && s.Program == lwangoCommand
}

// debugSocket is where lwango is asked for them.
func (s *server) debugSocket() string { return filepath.Join(s.Dir, "debug.sock") }

// profileFor profiles the server's CPU time for so long, and returns a function that waits for the
// end of that. The profile is one of env's.
func (s *server) profileFor(d time.Duration) (end func()) {
	if !s.Profile() {
		return func() {}
	}
	client := http.Client{Transport: &http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "unix", s.debugSocket())
		},
	}}
	ended := make(chan error, 1)
	go func() {
		_, err := attempt(func(url string) []byte {
			resp := must(client.Get(url))
			defer resp.Body.Close()
			profile := must(io.ReadAll(resp.Body))
			if resp.StatusCode != http.StatusOK {
				failf("%s: %s", resp.Status, profile)
			}
			file := filepath.Join(s.env.dir, fmt.Sprintf("profile-%d", len(s.env.profiles)))
			check(os.WriteFile(file, profile, 0o600))
			s.env.profiles = append(s.env.profiles, file)
			return nil
		}, fmt.Sprintf("http://debug/debug/pprof/profile?seconds=%d", max(int(d.Seconds()), 1)))
		ended <- err
	}()
	return func() { check(<-ended) }
}

// writeProfile adds all profiles up in one file, without what the kernel has done: that would hide
// what the compiler can better.
func (env *environment) writeProfile() {
	if env.profile == "" {
		return
	}
	if len(env.profiles) == 0 {
		failf("-profile: no work has run lwango's command")
	}
	out := must(os.Create(env.profile))
	defer out.Close()
	merge := exec.CommandContext(env.ctx, "go", append([]string{"tool", "pprof", "-proto",
		`-ignore=Syscall6?$`}, env.profiles...)...)
	merge.Stdout, merge.Stderr = out, os.Stderr
	check(merge.Run())
}
