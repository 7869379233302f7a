package main

import (
	"context"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"github.com/fusebox-go/fusebox"
)

// opener opens one kind of store by its address.
type opener func(a *app, ctx context.Context, address *url.URL) (fusebox.Store, error)

// openers by the scheme of the address.
var openers = map[string]opener{
	"file":   notYet,
	"redis":  notYet,
	"rediss": notYet,
}

func notYet(_ *app, _ context.Context, address *url.URL) (fusebox.Store, error) {
	return nil, fmt.Errorf("store %s: this build has no %s store", address.Redacted(), address.Scheme)
}

// openStore opens the store that the flags, the environment or the
// configuration name. The caller closes it.
func (a *app) openStore(ctx context.Context) (fusebox.Store, error) {
	address, from, err := a.storeAddress()
	if err != nil {
		return nil, err
	}
	parsed, err := url.Parse(address)
	if err != nil || openers[strings.ToLower(schemeOf(parsed))] == nil {
		return nil, usagef("%s: want a store such as file:///var/lib/fusebox or redis://host:6379/0, have %q", from, redactURL(address))
	}
	parsed.Scheme = strings.ToLower(parsed.Scheme)
	return openers[parsed.Scheme](a, ctx, parsed)
}

// storeAddress returns the store's URL and what named it.
func (a *app) storeAddress() (address, from string, err error) {
	if a.storeURL != "" {
		return a.storeURL, "--store", nil
	}
	if address := os.Getenv("FUSEBOX_STORE"); address != "" {
		return address, "FUSEBOX_STORE", nil
	}
	dir, err := stateDir()
	if err != nil {
		return "", "", err
	}
	return fileURL(dir), "default", nil
}

// stateDir is where the store is if nothing says otherwise.
func stateDir() (string, error) {
	if dir := os.Getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "fusebox"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("no place for the store: %w; set XDG_STATE_HOME or give --store file:///dir", err)
	}
	return filepath.Join(home, ".local", "state", "fusebox"), nil
}

func fileURL(dir string) string {
	path := filepath.ToSlash(dir)
	if !strings.HasPrefix(path, "/") { // a drive letter
		path = "/" + path
	}
	return (&url.URL{Scheme: "file", Path: path}).String()
}

// filePath is the directory that a file URL names.
func filePath(address *url.URL) (string, error) {
	if address.Host != "" && address.Host != "localhost" {
		return "", usagef("store %s: want three slashes before the directory: file:///%s%s", address, address.Host, address.Path)
	}
	path := address.Path
	if len(path) > 2 && path[0] == '/' && path[2] == ':' { // /C:/dir
		path = path[1:]
	}
	path = filepath.FromSlash(path)
	if !filepath.IsAbs(path) {
		return "", usagef("store %s: want an absolute directory, as in file:///var/lib/fusebox", address)
	}
	return filepath.Clean(path), nil
}

func schemeOf(u *url.URL) string {
	if u == nil {
		return ""
	}
	return u.Scheme
}

// redactURL hides a password in an address that could not be read as one.
func redactURL(address string) string {
	if parsed, err := url.Parse(address); err == nil {
		return parsed.Redacted()
	}
	return fusebox.ShortText(address)
}
