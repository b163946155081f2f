package confpath_test

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/lwango/lwango/internal/base/confpath"
	"github.com/lwango/lwango/internal/test/must"
)

// TestKeyPair: keys are decrypted that OpenSSL 3 has encrypted, in each of its formats.
func TestKeyPair(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range keys {
		must.Write(t, at(name), text)
	}
	for _, name := range []string{"pkcs8", "scrypt", "old"} {
		for password, want := range map[string]string{"opensesame": "", "sesame": "key_password does not",
			"": "expected key_password"} {
			c, err := confpath.KeyPair(at("cert"), at(name), password)
			if want == "" && (err != nil || c.Leaf == nil) ||
				want != "" && (err == nil || !strings.Contains(err.Error(), want) ||
					!strings.Contains(err.Error(), at(name))) {
				t.Errorf("%s, %q: %v", name, password, err)
			}
		}
	}
	if _, err := confpath.KeyPair(at("cert"), at("plain"), ""); err != nil {
		t.Error(err)
	}
	_, err := confpath.KeyPair(at("cert"), at("plain"), "x")
	if err == nil || !strings.Contains(err.Error(), "of no use") {
		t.Error(err)
	}
	// The key may stand behind the certificate in one file.
	must.Write(t, at("both"), keys["cert"]+"\n"+keys["pkcs8"]+"\n")
	if _, err := confpath.KeyPair(at("both"), at("both"), "opensesame"); err != nil {
		t.Error(err)
	}
}

// keys are a certificate and its key: as it is, by PBKDF2 and by scrypt in PKCS #8, and in the old
// format.
var keys = map[string]string{
	"cert": `-----BEGIN CERTIFICATE-----
MIIBfjCCASOgAwIBAgIUPC+1E6Eprf2S6H/rsOUQRhikao4wCgYIKoZIzj0EAwIw
EzERMA8GA1UEAwwIYXBwLnRlc3QwIBcNMjYxMTMwMDEyNzU3WhgPMjEyNjExMDYw
MTI3NTdaMBMxETAPBgNVBAMMCGFwcC50ZXN0MFkwEwYHKoZIzj0CAQYIKoZIzj0D
AQcDQgAEJRDapzZxiZ845acVZCGZ1xeL1AFz7YeGDhuhfdPePBvssK+r2cTbb2Nh
8d6nLnhkB7dOEfIkel9PdIxiNNh8oqNTMFEwHQYDVR0OBBYEFAv8ti/WULsDhH/P
Dz1DuV/N6h6tMB8GA1UdIwQYMBaAFAv8ti/WULsDhH/PDz1DuV/N6h6tMA8GA1Ud
EwEB/wQFMAMBAf8wCgYIKoZIzj0EAwIDSQAwRgIhAJ8UiehOVaXGDun04ywt6BkF
oyOoz4vWF9V9+COkUs7pAiEAjGKuPC5gSFcmqdO2AKIULo0Z+KzFt39iHOANmAZu
LdU=
-----END CERTIFICATE-----
`,
	"plain": `-----BEGIN EC PRIVATE KEY-----
MHcCAQEEIM5v6sszRzQ+QxwaBNrwpFTmFtFYvfy2W+RTOez/I8tooAoGCCqGSM49
AwEHoUQDQgAEJRDapzZxiZ845acVZCGZ1xeL1AFz7YeGDhuhfdPePBvssK+r2cTb
b2Nh8d6nLnhkB7dOEfIkel9PdIxiNNh8og==
-----END EC PRIVATE KEY-----
`,
	"pkcs8": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHsMFcGCSqGSIb3DQEFDTBKMCkGCSqGSIb3DQEFDDAcBAjmUQt9YyCqSgICCAAw
DAYIKoZIhvcNAgkFADAdBglghkgBZQMEASoEEG2KiH749m2/DSW8KyufHlUEgZBt
Pd1IERREuuKCkqUjfO/BHEQopVOKlDeUxTjpqBiTqiDCfPuTva7o2fV7XNgoRyTd
1z2jbugnt2YszK/AHPCm1a0dufxViek4zgZ1/pM8nKdRod+akSZdryBw2g3keBTb
aRWErVh8VLGR0y6PtYlVenWnKiu5LzQAI/hrXJoV+UidnDMjRJDgk1KKXh3oqWA=
-----END ENCRYPTED PRIVATE KEY-----
`,
	"scrypt": `-----BEGIN ENCRYPTED PRIVATE KEY-----
MIHkME8GCSqGSIb3DQEFDTBCMCEGCSsGAQQB2kcECzAUBAj1gV1mW9ZxuQICBAAC
AQgCAQEwHQYJYIZIAWUDBAEqBBCih3ExoGu7o9VWOZhpdbuhBIGQb5r1ionE29hr
EhUGaIwZtchxeJv8n4j5YMqqP43ceQkSIybo9i7hjUT65g2chXsPr/Xh4ig+3HU/
5rheEmDn3UxIQVDTNXWVWDNEMD0nlQUAe76T8ss5H8WZCokMjOBf2lD/r+RAle8P
+TfiTRYQze5ODQOtyG2LmRhVoPOt0G+6Li4RHgz5KaKCh1jlfIxY
-----END ENCRYPTED PRIVATE KEY-----
`,
	"old": `-----BEGIN EC PRIVATE KEY-----
Proc-Type: 4,ENCRYPTED
DEK-Info: AES-128-CBC,AC5688287E9324946EC87DC78B6AA264

n7T0Ge0PCOCs9F3htVhAI1+XLgB5pBRiNJBY6rjJDlZgpdqvLII3ecCFZONwEVpF
A3cLuOxkmA9GMvL1xq0+D4xl/Skke5c71bCK+TCzusZhL7TXdsQ+dyveKwpbSxuj
inquDnIyFMJ3ipkfR2ClR+NZJCTUxph15mf+sQdcxfI=
-----END EC PRIVATE KEY-----
`,
}
