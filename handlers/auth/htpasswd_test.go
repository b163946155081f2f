package auth_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/lwango/lwango/handlers/auth"
	"github.com/lwango/lwango/internal/test/must"
	"golang.org/x/crypto/bcrypt"
)

// The hashes of openssl passwd -apr1, and of bcrypt and SHA elsewhere.
func TestHashes(t *testing.T) {
	made := must.Get(bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost))(t)
	for _, test := range []struct{ hashed, password string }{
		{"$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/", "secret"},
		{"$apr1$x$tMwYqBfQwi3FYAr0aJc8M/", ""},
		{"$apr1$8bytesss$LZs7bWBFVS61XKKart/th/",
			"a much longer password than sixteen bytes, and ümläute"},
		{"$apr1$xyz$odYVLrjkS4l6qI0ES65Ug1", "a"},
		{"{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=", "secret"},
		// Those of openssl passwd, of glibc's crypt(3) and of password_hash of PHP.
		{"$1$saltsalt$9xy1btjgzLYfb7hivXtC//", "secret"},
		{"$5$saltsalt$0IyaXrmV7.sGNS6tirgqHLqX/G.FBvgkYA.lpPdS5sA", "secret"},
		{"$6$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0Y77vwPZN." +
			"Pq.H91p5hVO1", "secret"},
		{"$6$rounds=5000$saltsalt$TVLlQcbpFVof5W3Yz4DTP6gRstiNuHwwTt6GLc1E5n0U0aDehy0S5knV8wiOQSpT0" +
			"Y77vwPZN.Pq.H91p5hVO1", "secret"},
		{"$y$j9T$F5Jx5fExrKuPp53xLKQ..1$GmcwIgvdUC9qLWcKCi6gklUa1dM3ziD43YxYNURLKy0", "secret"},
		{"$argon2id$v=19$m=1024,t=2,p=1$a3JTSVlUTkhJQjBEV0JScQ$" +
			"YLtSAw9hq1r0bUTe/4P8+3iylGUEUsBMPlD1BVMx1LQ", "secret"},
		{string(made), "secret"},
		{"$2y$" + string(made[4:]), "secret"}, // as htpasswd and PHP write it
		{"$2b$" + string(made[4:]), "secret"},
	} {
		if ok, err := auth.Matches(test.hashed, test.password); !ok || err != nil {
			t.Errorf("%s: %v, %v", test.hashed, ok, err)
		}
		for _, other := range []string{"", "secreT", "secret ", "Secret", test.password + "x"} {
			if other == test.password {
				continue
			}
			if ok, _ := auth.Matches(test.hashed, other); ok {
				t.Errorf("%s matches %q", test.hashed, other)
			}
		}
	}
}

const (
	sha  = "{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ="
	apr1 = "$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ/"
)

func TestHtpasswd(t *testing.T) {
	plain := "; bcrypt (which htpasswd -B makes), argon2, yescrypt, $6$, $5$, $1$, APR1 and {SHA} are"
	bcrypt60 := "$2y$10$" + strings.Repeat("a", 53)
	for _, test := range []struct{ text, want string }{
		{"", ""},
		{"\n\r\n  \n# a comment\n#x:y", ""},
		{"ann:" + sha, "ann " + sha},
		{"\xef\xbb\xbfann:" + sha + "\r\n", "ann " + sha}, // as an editor of Windows leaves it
		{"ann:" + sha + "\r\nbob:" + apr1 + "  \n", "ann " + sha + ",bob " + apr1},
		{"ann:" + sha + ":Ann, from the desk", "ann " + sha},
		{"a b:" + sha + "\nÄnn:" + bcrypt60, "a b " + sha + ",Änn " + bcrypt60},

		{"ann", "1: expected name:hash, found no colon"},
		{"\n#\n:" + sha, "3: expected a name in front of the colon"},
		{"ann:", `1: user "ann": no hash of a password behind the name`},
		{"ann::x", `1: user "ann": no hash of a password behind the name`},
		{"ann:" + sha + "\nann:" + apr1, `2: there is another user "ann" above`},
		{"a\tb:" + sha, "1: control characters cannot be part of a name"},
		{strings.Repeat("x", 256) + ":" + sha, "1: a name has at most 255 bytes"},
		{"ann:secret", `1: user "ann": the password is plain, or hashed by DES` + plain},
		{"ann:$ecret$", `1: user "ann": the password is plain, or hashed by DES` + plain},
		{"ann:{PLAIN}secret", `1: user "ann": the password is plain, or hashed by DES` + plain},
		{"ann:rqXexS6ZhobKA", `1: user "ann": the password is plain, or hashed by DES` + plain},
		{"ann:$6$salt$hash", `1: user "ann": not a complete hash of SHA-256 or SHA-512`},
		{"ann:$5$rounds=x$salt$" + strings.Repeat("a", 43),
			`1: user "ann": not a complete hash of SHA-256 or SHA-512`},
		{"ann:$5$rounds=500001$salt$" + strings.Repeat("a", 43),
			`1: user "ann": the rounds of SHA-256 and SHA-512 must be 1000 to 500000`},
		{"ann:$y$j9T$salt$hash", `1: user "ann": not a complete hash of yescrypt`},
		{"ann:$y$jFT$salt$" + strings.Repeat("a", 43), `1: user "ann": the cost of yescrypt must ` +
			`be 1024 blocks or more, and 128 MiB or less`},
		{"ann:$y$k9T$salt$" + strings.Repeat("a", 43),
			`1: user "ann": this kind of yescrypt is not known; the one of mkpasswd is, with $y$j`},
		{"ann:$argon2id$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ",
			`1: user "ann": not a complete hash of argon2`},
		{"ann:$argon2d$v=19$m=65536,t=3,p=4$c2FsdHNhbHQ$" + strings.Repeat("A", 43),
			`1: user "ann": of argon2 only argon2id and argon2i are known`},
		{"ann:$argon2id$v=19$m=262144,t=3,p=4$c2FsdHNhbHQ$" + strings.Repeat("A", 43),
			`1: user "ann": the cost of argon2 must be 128 MiB or less, t times m 1048576 or less, and ` +
				`p 16 or less`},
		{"ann:$argon2id$v=19$m=65536,t=4000000000,p=4$c2FsdHNhbHQ$" + strings.Repeat("A", 43),
			`1: user "ann": the cost of argon2 must be 128 MiB or less, t times m 1048576 or less, and ` +
				`p 16 or less`},
		{"ann:$7$salt$hash", `1: user "ann": hashes of the kind $7$ are not known` + plain},
		{"ann:$my secret$a$b", `1: user "ann": hashes of the kind $...$ are not known` + plain},
		{"ann:{SSHA}5en6G6MezRroT3XKqkdPOmY/BfQ=",
			`1: user "ann": the password is plain, or hashed by DES` + plain},
		{"ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfQ=\r:", `1: user "ann": not a complete hash of SHA`},
		{"ann:{SHA}5en6", `1: user "ann": not a complete hash of SHA`},
		{"ann:{SHA}5en6G6MezRroT3XKqkdPOmY/BfR=", `1: user "ann": not a complete hash of SHA`},
		{"ann:$apr1$abcdefgh$h9FWgUz3n9YxylKLlR5SQ", `1: user "ann": not a complete hash of APR1 or MD5`},
		{"ann:$apr1$$h9FWgUz3n9YxylKLlR5SQ/", `1: user "ann": not a complete hash of APR1 or MD5`},
		{"ann:$apr1$abcdefghi$h9FWgUz3n9YxylKLlR5SQ/",
			`1: user "ann": not a complete hash of APR1 or MD5`},
		{"ann:" + bcrypt60[:59], `1: user "ann": not a complete hash of bcrypt`},
		{"ann:" + bcrypt60 + "a", `1: user "ann": not a complete hash of bcrypt`},
		{"ann:$2y$15$" + bcrypt60[7:], `1: user "ann": the cost of bcrypt must be 4 to 14`},
		{"ann:$2y$+9$" + bcrypt60[7:], `1: user "ann": the cost of bcrypt must be 4 to 14`},
		{"ann:$2x$10$" + bcrypt60[7:], `1: user "ann": hashes of the kind $2x$ are not known` + plain},
	} {
		users, err := auth.Users([]byte(test.text))
		var got []string
		for _, name := range []string{"ann", "bob", "a b", "Änn"} {
			if h, ok := users[name]; ok {
				got = append(got, name+" "+h)
			}
		}
		text := strings.Join(got, ",")
		if err != nil {
			text = err.Error()
		}
		if text != test.want || len(users) != len(got) {
			t.Errorf("%q:\n got %s\nwant %s", test.text, text, test.want)
		}
	}
}

// TestUnknownNamesCostTheSame: names that do not exist have the costs of those that do, all of
// them.
func TestUnknownNamesCostTheSame(t *testing.T) {
	file := []byte("ann:" + sha + "\nbob:" + apr1)
	seen := map[string]bool{}
	for i := range 200 {
		seen[auth.Decoy(file, fmt.Sprint("nobody", i))] = true
	}
	if !seen["ann"] || !seen["bob"] {
		t.Errorf("only %v", seen)
	}
}

func FuzzHtpasswd(f *testing.F) {
	f.Add([]byte("ann:" + sha + "\r\n# x\n\nbob:" + apr1 + ":more"))
	f.Add([]byte("ann:$2y$10$" + strings.Repeat("a", 53)))
	f.Add([]byte("ann:$6$salt$hash"))
	f.Add([]byte(":\n:::\nx"))
	f.Fuzz(func(t *testing.T, text []byte) {
		users, err := auth.Users(text)
		lines := strings.Count(string(text), "\n") + 1
		if err != nil {
			if n := auth.Line(err); n < 1 || n > lines {
				t.Errorf("line %d of %d", n, lines)
			}
			return
		}
		again := ""
		for name, hash := range users {
			again += name + ":" + hash + "\n"
		}
		same, err := auth.Users([]byte(again))
		if err != nil || fmt.Sprint(same) != fmt.Sprint(users) {
			t.Errorf("%q, read again: %q, %v", users, same, err)
		}
	})
}

// FuzzCredentials compares with the standard library, which knows no limit of length.
func FuzzCredentials(f *testing.F) {
	f.Add("Basic YW5uOnNlY3JldA==")
	f.Add("basic  OjpvOg==")
	f.Add("Bearer x")
	f.Add("Basic Og")
	f.Fuzz(func(t *testing.T, field string) {
		name, password, ok := auth.Credentials(field)
		std := http.Request{Header: http.Header{"Authorization": {field}}}
		// several spaces: RFC 9110 section 11.4
		if scheme, rest, spaced := strings.Cut(field, " "); spaced {
			std.Header.Set("Authorization", scheme+" "+strings.TrimLeft(rest, " "))
		}
		wantName, wantPassword, want := std.BasicAuth()
		if len(field) > 1000 {
			return
		}
		if name != wantName || password != wantPassword || ok != want {
			t.Errorf("%q: %q %q %v, want %q %q %v", field, name, password, ok, wantName, wantPassword, want)
		}
	})
}
