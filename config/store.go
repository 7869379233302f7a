package config

import (
	"errors"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
)

// StoreURL says where circuits are kept: file:///dir on this machine, or
// redis:// (rediss:// with TLS) for a fleet. The zero StoreURL is none. Printing
// it leaves out what may hold a secret.
type StoreURL struct{ raw string }

// ParseStore reads a store's URL, as in the file, --store and FUSEBOX_STORE.
// Its errors never hold a password.
func ParseStore(s string) (StoreURL, error) {
	u, err := url.Parse(s)
	if err != nil {
		return StoreURL{}, errors.New("want file:///directory or redis://host:6379/0, have something that is no URL")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" {
			return StoreURL{}, errors.New("want file:///directory with three slashes, have the host " + shown(u.Host))
		}
		if u.Path == "" || u.Path == "/" || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
			return StoreURL{}, errors.New("want file:///directory, an absolute path and no more, have " + shown(withoutSecrets(u)))
		}
	case "redis", "rediss":
		if u.Hostname() == "" {
			return StoreURL{}, errors.New("want " + u.Scheme + "://host:6379/0, have no host")
		}
		if db := strings.TrimPrefix(u.Path, "/"); strings.Trim(db, "0123456789") != "" {
			return StoreURL{}, errors.New("want " + u.Scheme + "://host:6379/0 with a database's number, have " + shown(db))
		}
	default:
		return StoreURL{}, errors.New("want file:///directory or redis://host:6379/0, have " + shown(withoutSecrets(u)))
	}
	return StoreURL{raw: s}, nil
}

// DefaultStore is where circuits are kept unless something else is said:
// $XDG_STATE_HOME/fusebox, by default ~/.local/state/fusebox. It is zero where
// there is no home directory.
func DefaultStore() StoreURL {
	dir := os.Getenv("XDG_STATE_HOME")
	if !filepath.IsAbs(dir) {
		home, err := os.UserHomeDir()
		if err != nil {
			return StoreURL{}
		}
		dir = filepath.Join(home, ".local", "state")
	}
	return fileStore(filepath.Join(dir, "fusebox"))
}

func fileStore(dir string) StoreURL {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") {
		path = "/" + path // C:/… on Windows
	}
	return StoreURL{raw: (&url.URL{Scheme: "file", Path: path}).String()}
}

// IsZero reports whether no store is named.
func (s StoreURL) IsZero() bool { return s.raw == "" }

// URL returns the whole URL, a password included: for connecting, not for printing.
func (s StoreURL) URL() string { return s.raw }

// Dir returns the directory of a file store, or "".
func (s StoreURL) Dir() string {
	u, err := url.Parse(s.raw)
	if err != nil || u.Scheme != "file" {
		return ""
	}
	path := u.Path
	if runtime.GOOS == "windows" {
		path = strings.TrimPrefix(path, "/")
	}
	return filepath.FromSlash(path)
}

// Shared reports whether the store is one that several machines use.
func (s StoreURL) Shared() bool { return s.raw != "" && s.Dir() == "" }

// String returns the URL without what may hold a secret: user, password, and all
// parameters but the prefix of the keys.
func (s StoreURL) String() string {
	u, err := url.Parse(s.raw)
	if err != nil {
		return ""
	}
	return withoutSecrets(u)
}

func withoutSecrets(u *url.URL) string {
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	if prefix := u.Query().Get("prefix"); prefix != "" {
		shown.RawQuery = "prefix=" + strings.ReplaceAll(url.QueryEscape(prefix), "%3A", ":")
	}
	return shown.String()
}

// MarshalText returns what [StoreURL.String] does.
func (s StoreURL) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// LogValue logs what [StoreURL.String] returns.
func (s StoreURL) LogValue() slog.Value { return slog.StringValue(s.String()) }

// GoString keeps the password out of %#v too.
func (s StoreURL) GoString() string { return s.String() }
