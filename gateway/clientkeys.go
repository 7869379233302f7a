package gateway

import (
	"crypto/sha256"
	"net/http"
	"sync"
	"time"
)

// maxThrottledKeys bounds what is remembered of clients' own keys.
const maxThrottledKeys = 1024

// throttledKeys remembers which of the clients' own keys a backend has asked to
// leave it alone. Such a throttle is no circuit's: it holds for one key, and
// keys come from callers. The zero value is ready; it is safe for concurrent use.
type throttledKeys struct {
	mu    sync.Mutex
	until map[[sha256.Size]byte]time.Time
}

// defaultKeyThrottle is for a 429 that names no time.
const defaultKeyThrottle = time.Second

func keyOf(h http.Header) [sha256.Size]byte {
	return sha256.Sum256([]byte(h.Get("Authorization") + "\x00" + h.Get("X-Api-Key") + "\x00" + h.Get("Api-Key")))
}

// throttle leaves the key alone until a time; zero = a second.
func (k *throttledKeys) throttle(key [sha256.Size]byte, until, now time.Time) {
	if until.IsZero() {
		until = now.Add(defaultKeyThrottle)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.until == nil {
		k.until = map[[sha256.Size]byte]time.Time{}
	}
	if len(k.until) >= maxThrottledKeys {
		for old, end := range k.until {
			if !now.Before(end) {
				delete(k.until, old)
			}
		}
	}
	if len(k.until) < maxThrottledKeys {
		k.until[key] = until
	}
}

// throttled returns until when the key is to be left alone; zero = it is not.
func (k *throttledKeys) throttled(key [sha256.Size]byte, now time.Time) time.Time {
	k.mu.Lock()
	defer k.mu.Unlock()
	until := k.until[key]
	if !now.Before(until) {
		delete(k.until, key)
		return time.Time{}
	}
	return until
}
