package mcp

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// TokenHeader is a header for the guard's token, for clients whose
// Authorization is the server's.
const TokenHeader = "Fusebox-Token"

// access decides who may use a guard that listens. Web pages must not reach it:
// neither from another origin, nor by a name that leads here.
type access struct {
	token   func() string
	host    string // that it listens on
	anyHost bool   // not on loopback: the token is what protects
}

func newAccess(token func() string, listen string) *access {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	return &access{token: token, host: strings.ToLower(host), anyHost: host != "" && !isLoopback(host)}
}

// check returns the status to refuse a request with, and why; 0 = it may pass.
func (a *access) check(r *http.Request) (status int, why string) {
	host := hostName(r.Host)
	if !a.anyHost && host != a.host && !isLoopback(host) {
		return http.StatusForbidden, "this guard listens on a loopback address and answers only to a loopback host name"
	}
	if origin := r.Header.Get("Origin"); origin != "" {
		u, err := url.Parse(origin)
		if err != nil || u.Host == "" || !isLoopback(u.Hostname()) && u.Host != r.Host {
			return http.StatusForbidden, "requests from web pages of another origin are refused"
		}
	}
	if a.token != nil && !a.isToken(r.Header.Get(TokenHeader)) && !a.isToken(bearer(r.Header)) {
		return http.StatusUnauthorized, "this guard asks for its token: as Authorization: Bearer TOKEN, or as " + TokenHeader
	}
	return 0, ""
}

// strip keeps the guard's own token from the server.
func (a *access) strip(h http.Header) {
	h.Del(TokenHeader)
	if a.token != nil && a.isToken(bearer(h)) {
		h.Del("Authorization")
	}
}

// isToken compares in a time that tells nothing.
func (a *access) isToken(credential string) bool {
	token := a.token()
	x, y := sha256.Sum256([]byte(credential)), sha256.Sum256([]byte(token))
	return token != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func bearer(h http.Header) string {
	scheme, credential, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(credential)
}

func hostName(hostPort string) string {
	if h, _, err := net.SplitHostPort(hostPort); err == nil {
		hostPort = h
	}
	return strings.ToLower(strings.Trim(hostPort, "[]"))
}

func isLoopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.Unmap().IsLoopback()
}
