// Package admin is the listener beside the gateway: metrics for Prometheus,
// health, and what is known of the circuits as JSON.
//
//	/metrics ───> flush the box ──> counters fed by its listeners, gauges read now
//	/v1/circuits ─> one report of the store and the box, as `fusebox status --json` prints it
//	/healthz ───> the process answers
package admin

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Config says what the admin listener shows and to whom.
type Config struct {
	// Box is the process's circuits. Required.
	Box *fusebox.Box

	// Store is the one that the Box uses; nil = none.
	Store fusebox.Store

	// Token returns what is required as "Authorization: Bearer TOKEN" on
	// everything but /healthz; nil = everybody who can connect may look.
	Token func() string

	// MaxCircuits bounds the circuits that have labels of their own in the
	// metrics; the others share one. 0 = 500.
	MaxCircuits int

	Version string // of the program, for build_info

	Logger *slog.Logger // nil = quiet
}

const defaultMaxCircuits = 500

// How long a request waits for the store: what is known locally is shown then.
const (
	wait      = 2 * time.Second
	waitAgain = 50 * time.Millisecond // while it is known to be out of reach
)

// Handler serves the admin listener. Make one with [New]; Close ends its use of
// the Box.
type Handler struct {
	cfg     Config
	serve   http.Handler
	metrics *metrics
	local   atomic.Bool // as last seen: the store is out of reach
}

// New returns the admin listener's handler. Make it before the circuits are
// used: what the Box counted before has no place in the metrics.
func New(cfg Config) (*Handler, error) {
	if cfg.Box == nil {
		return nil, errors.New("admin: Config.Box is required")
	}
	if cfg.MaxCircuits < 0 {
		return nil, errors.New("admin: Config.MaxCircuits must not be negative")
	}
	if cfg.MaxCircuits == 0 {
		cfg.MaxCircuits = defaultMaxCircuits
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	h := &Handler{cfg: cfg}
	h.metrics = newMetrics(h)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", h.healthz)
	mux.Handle("GET /metrics", h.authorized(h.metrics.handler()))
	mux.Handle("GET /v1/circuits", h.authorized(http.HandlerFunc(h.circuits)))
	for _, path := range []string{"/healthz", "/metrics", "/v1/circuits"} {
		mux.HandleFunc(path, onlyGet)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		fail(w, http.StatusNotFound, "nothing here: there are /metrics, /healthz and /v1/circuits")
	})
	h.serve = h.knownHost(http.NewCrossOriginProtection().Handler(mux))
	return h, nil
}

// ServeHTTP serves one request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) { h.serve.ServeHTTP(w, r) }

// Close ends the handler's use of the Box. It is safe to call twice.
func (h *Handler) Close() { h.metrics.stop() }

// healthz says that the process answers. It needs no token and tells nothing:
// an open circuit does not make this process unhealthy.
func (h *Handler) healthz(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Write([]byte("ok\n"))
}

func (h *Handler) circuits(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := h.flush(r.Context())
	defer cancel()
	writeJSON(w, http.StatusOK, h.report(ctx))
}

// flush brings what the box counted to its listeners and to the store, and
// returns a context with the time that is left for the store.
func (h *Handler) flush(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := h.patience(ctx)
	if err := h.cfg.Box.Flush(ctx); err != nil {
		h.cfg.Logger.Debug("flushing the box", "error", err)
	}
	return ctx, cancel
}

// patience bounds how long the store may take: less where it was out of reach
// just now.
func (h *Handler) patience(ctx context.Context) (context.Context, context.CancelFunc) {
	limit := wait
	if h.local.Load() {
		limit = waitAgain
	}
	return context.WithTimeout(ctx, limit)
}

func onlyGet(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Allow", "GET, HEAD")
	fail(w, http.StatusMethodNotAllowed, "this is only for reading: want GET, have "+r.Method)
}

// authorized lets through who knows the token.
func (h *Handler) authorized(next http.Handler) http.Handler {
	if h.cfg.Token == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if !strings.EqualFold(scheme, "Bearer") || !same(strings.TrimSpace(token), h.cfg.Token()) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="fusebox"`)
			fail(w, http.StatusUnauthorized, "the admin token is required: send it as 'Authorization: Bearer TOKEN'")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// same compares with a secret in a time that tells nothing of it. An empty
// secret is like nothing.
func same(have, secret string) bool {
	x, y := sha256.Sum256([]byte(have)), sha256.Sum256([]byte(secret))
	return secret != "" && subtle.ConstantTimeCompare(x[:], y[:]) == 1
}

// knownHost refuses requests that were sent to some other name: a web page can
// let its own name point here (DNS rebinding), but cannot change the name that
// the browser sends. Who knows the token may use any name.
func (h *Handler) knownHost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if h.cfg.Token == nil && !isLocalName(r.Host) {
			fail(w, http.StatusForbidden, "this listener is not known by that name: use its address or localhost")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// isLocalName reports whether a Host header says localhost or an address, which
// nobody can rebind.
func isLocalName(hostport string) bool {
	host := hostport
	if name, _, err := net.SplitHostPort(hostport); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	return host == "localhost" || strings.HasSuffix(host, ".localhost") || net.ParseIP(host) != nil
}

// fail answers with an error in words.
func fail(w http.ResponseWriter, status int, message string) {
	type body struct {
		Message string `json:"message"`
	}
	writeJSON(w, status, map[string]body{"error": {message}})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	enc.Encode(v) // a client that is gone is no fault of ours
}
