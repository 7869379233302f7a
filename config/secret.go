package config

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"
)

// Secret names where a secret is: in an environment variable or in a file. It
// holds no value, so printing it shows the name alone. The zero Secret is none.
type Secret struct {
	Env  string // name of an environment variable
	File string // path of a file; its outer space is not part of the secret
}

// ErrSecret is matched when a secret cannot be had.
var ErrSecret = errors.New("config: secret missing")

const maxSecret = 64 << 10

// IsZero reports whether there is no secret.
func (s Secret) IsZero() bool { return s == Secret{} }

// Value reads the secret now; "" for none. An unset or empty variable, and a
// file that is unreadable or empty, are errors that match [ErrSecret] and name it.
func (s Secret) Value() (string, error) {
	switch {
	case s.Env != "":
		if v := strings.TrimSpace(os.Getenv(s.Env)); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("%w: the environment variable %s is not set: export it, or remove what needs it", ErrSecret, s.Env)
	case s.File != "":
		return readSecret(s.File)
	}
	return "", nil
}

func readSecret(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSecret, err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxSecret+1))
	if err != nil {
		return "", fmt.Errorf("%w: %w", ErrSecret, err)
	}
	v := strings.TrimSpace(string(b))
	switch {
	case len(b) > maxSecret:
		return "", fmt.Errorf("%w: the file %s is larger than %d bytes", ErrSecret, path, maxSecret)
	case v == "":
		return "", fmt.Errorf("%w: the file %s is empty", ErrSecret, path)
	}
	return v, nil
}

// String returns "$NAME", "file PATH" or "none".
func (s Secret) String() string {
	switch {
	case s.Env != "":
		return "$" + s.Env
	case s.File != "":
		return "file " + s.File
	}
	return "none"
}

// MarshalText returns what [Secret.String] does.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue logs what [Secret.String] returns.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }
