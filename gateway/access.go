package gateway

import (
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// access decides who may use the gateway at all.
type access struct {
	token    func() string
	anyHost  bool   // not on loopback: the token is what protects
	host     string // of the listen address, without port
	crossing *http.CrossOriginProtection
}

func newAccess(token func() string, listen string) access {
	host, _, err := net.SplitHostPort(listen)
	if err != nil {
		host = listen
	}
	return access{token: token, host: strings.ToLower(host), anyHost: host != "" && !isLoopback(host), crossing: http.NewCrossOriginProtection()}
}

// check returns a *refusal, or nil.
func (a *access) check(r *http.Request) error {
	if host := hostOf(r); !a.anyHost && host != a.host && !isLoopback(host) {
		return refuse(http.StatusForbidden, "host_refused", "This gateway listens on a loopback address and answers only to a loopback host name, not to "+shorten(host)+".")
	}
	if err := a.crossing.Check(r); err != nil {
		return refuse(http.StatusForbidden, "cross_origin", "Requests from web pages of another origin are refused.")
	}
	if a.token == nil {
		return nil
	}
	token := a.token()
	if token == "" || same(bearer(r.Header), token) || same(r.Header.Get("X-Api-Key"), token) {
		return nil
	}
	return refuse(http.StatusUnauthorized, "invalid_api_key", "This gateway asks for its token: as Authorization: Bearer TOKEN, or as x-api-key.")
}

// isToken reports whether a credential that a client sent is the gateway's own.
func (a *access) isToken(credential string) bool {
	if a.token == nil || credential == "" {
		return false
	}
	token := a.token()
	return token != "" && same(credential, token)
}

// same compares in a time that tells nothing of either, length included.
func same(a, b string) bool {
	x, y := sha256.Sum256([]byte(a)), sha256.Sum256([]byte(b))
	return subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

func bearer(h http.Header) string {
	scheme, credential, _ := strings.Cut(h.Get("Authorization"), " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(credential)
}

func hostOf(r *http.Request) string {
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	return strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
}

func isLoopback(host string) bool {
	if host == "localhost" || strings.HasSuffix(host, ".localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}
