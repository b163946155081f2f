package auth_test

import (
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/internal/test/modes"
	"github.com/lwango/lwango/internal/test/must"
	"github.com/lwango/lwango/internal/test/race"
	"github.com/lwango/lwango/internal/test/server"
	"github.com/lwango/lwango/internal/test/wait"
	"golang.org/x/crypto/bcrypt"
	"golang.org/x/sys/unix"
)

// from sends credentials from another address, without reading the answer. half: the client's
// FIN comes with them.
func (s *site) from(address, credentials string, half bool) *server.Client {
	s.t.Helper()
	c := s.DialBy(&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}})
	request := "GET / HTTP/1.1\r\nHost: a\r\n" + basic(credentials) + "\r\n\r\n"
	if half { // in one segment
		raw, err := c.TCP().SyscallConn()
		if err != nil {
			s.t.Fatal(err)
		}
		_ = raw.Control(func(fd uintptr) {
			err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_CORK, 1)
		})
		if err != nil {
			s.t.Fatal(err)
		}
	}
	c.Send(request)
	if half {
		c.CloseWrite()
	}
	return c
}

// waiting waits until n passwords wait for their turn.
func waiting(t *testing.T, n int) {
	t.Helper()
	wait.Until(t, fmt.Sprintf("%d wait", n), func() bool {
		_, waiting := auth.Waiting()
		return waiting == n
	})
}

// TestParallel: what a browser sends on many connections at once is verified once.
func TestParallel(t *testing.T) {
	s := start(t, modes.Several, hashed(t, "ann", "x"))
	free := auth.Hold()
	var all sync.WaitGroup
	for range 64 {
		all.Go(func() {
			if got := s.try("ann:x"); got != "user ann Basic" {
				t.Error(got)
			}
		})
	}
	waiting(t, 1)
	free()
	all.Wait()
}

// TestGuessesWait: a guess waits for its turn, no longer than maxWait, and leaves the queue with
// its client; credentials that were right before pass.
func TestGuessesWait(t *testing.T) {
	s := start(t, modes.Direct, hashed(t, "ann", "x"))
	if got := s.try("ann:x"); got != "user ann Basic" {
		t.Fatal(got)
	}
	free := auth.Hold()
	defer func() { free() }()
	t.Run("served in the end", func(t *testing.T) {
		c := s.from("127.0.0.2", "ann:guess", false)
		waiting(t, 1)
		if got := s.try("ann:x"); got != "user ann Basic" {
			t.Errorf("meanwhile ann: %s", got)
		}
		free()
		if a := c.Answer("GET"); a.StatusCode != 401 {
			t.Errorf("the guess: %s", a.Status)
		}
		free = auth.Hold()
	})
	t.Run("the client leaves", func(t *testing.T) {
		c := s.from("127.0.0.2", "eve:guess", false) // there is no such user
		waiting(t, 1)
		c.Reset()
		waiting(t, 0)
	})
	t.Run("one of two clients leaves", func(t *testing.T) {
		c, stays := s.from("127.0.0.2", "eve:guess", false), s.from("127.0.0.3", "eve:guess", false)
		waiting(t, 1)
		c.Reset()
		free()
		if a := stays.Answer("GET"); a.StatusCode != 401 {
			t.Errorf("the other one: %s", a.Status)
		}
		free = auth.Hold()
	})
	t.Run("the client had ended its sending half", func(t *testing.T) {
		c := s.from("127.0.0.2", "eve:guess", true)
		waiting(t, 1)
		free()
		if a := c.Answer("GET"); a.StatusCode != 401 {
			t.Errorf("the guess: %s", a.Status)
		}
		free = auth.Hold()
	})
}

// TestGuessWaitsTooLong: it gets 503.
func TestGuessWaitsTooLong(t *testing.T) {
	auth.Patience(t, 50*time.Millisecond, time.Minute)
	s := start(t, modes.Direct, hashed(t, "ann", "x"))
	defer auth.Hold()()
	a := s.Request("GET /", []string{basic("ann:guess")}, "")
	if a.StatusCode != 503 || a.Header.Get("Retry-After") != "1" {
		t.Errorf("%s, Retry-After %q", a.Status, a.Header.Get("Retry-After"))
	}
	waiting(t, 0)
}

// TestOldProofs: a user whose credentials would have to be verified again passes when that would
// take too long, as long as the hash is the same.
func TestOldProofs(t *testing.T) {
	auth.ForgetAlways(t)
	auth.CheckAlways(t)
	auth.Patience(t, 200*time.Millisecond, time.Millisecond)
	s := start(t, modes.Direct, hashed(t, "ann", "x"))
	if got := s.try("ann:x"); got != "user ann Basic" {
		t.Fatal(got)
	}
	defer auth.Hold()()
	for credentials, want := range map[string]string{
		"ann:x": "user ann Basic", "ann:y": "503", "eve:x": "503",
	} {
		if got := s.try(credentials); got != want {
			t.Errorf("%s: %s, want %s", credentials, got, want)
		}
	}
	s.write(hashed(t, "ann", "new"))
	if got := s.try("ann:x"); got != "503" {
		t.Errorf("the old password: %s", got)
	}
}

// TestFirstLoginBesideGuesses: twenty addresses that guess, whose first guesses have been wrong,
// let a user in before them who logs in for the first time.
func TestFirstLoginBesideGuesses(t *testing.T) {
	auth.ForgetSuspects()
	cost := 9 // some 30 ms
	if race.Enabled {
		cost = 6 // the same
	}
	h := must.Get(bcrypt.GenerateFromPassword([]byte("x"), cost))(t)
	s := start(t, modes.Several, "ann:"+string(h)+"\n")
	const addresses, guesses = 20, 4
	for i := range addresses {
		c := s.from(fmt.Sprintf("127.0.1.%d", i), fmt.Sprintf("ann:first%d", i), false)
		if a := c.Answer("GET"); a.StatusCode != 401 {
			t.Fatal(a.Status)
		}
	}
	free := auth.Hold()
	for i := range addresses {
		for k := range guesses {
			s.from(fmt.Sprintf("127.0.1.%d", i), fmt.Sprintf("ann:%d and %d", i, k), false)
		}
	}
	waiting(t, addresses*guesses)
	user := s.from("127.0.2.1", "ann:x", false)
	waiting(t, addresses*guesses+1)
	free()
	if a := user.Answer("GET"); a.Text != "user ann Basic" {
		t.Errorf("the user: %s", a.Status)
	}
	// With turns alone, one guess of each address would come first.
	if _, left := auth.Waiting(); left < addresses*(guesses-1) {
		t.Errorf("%d of %d guesses were verified before the user's password",
			addresses*guesses-left, addresses*guesses)
	}
	for i := range addresses {
		if got := auth.Suspects(time.Duration(i)*10*time.Second, 0); got != (i < 12) {
			t.Errorf("a site that has guessed %d s ago is remembered: %v", i*10, got)
		}
	}
	if !auth.Suspects(70*time.Second, 65*time.Second) ||
		auth.Suspects(130*time.Second, 65*time.Second) {
		t.Error("beside others, a site is to be remembered for a minute at least, and for two at most")
	}
}
