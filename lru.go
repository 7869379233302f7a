package fusebox

import "container/list"

// lru is a map that forgets what was used longest ago when it holds more than
// limit entries. It is not safe for concurrent use.
type lru[K comparable, V any] struct {
	limit int
	order list.List // of *lruEntry, the newest first
	byKey map[K]*list.Element
}

type lruEntry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, byKey: map[K]*list.Element{}}
}

// peek returns the value of key, without counting as a use.
func (l *lru[K, V]) peek(key K) (value V, ok bool) {
	e, ok := l.byKey[key]
	if !ok {
		return value, false
	}
	return e.Value.(*lruEntry[K, V]).value, true
}

// use returns the value of key as the one used last, making it if need be.
func (l *lru[K, V]) use(key K, create func() V) V {
	if e, ok := l.byKey[key]; ok {
		l.order.MoveToFront(e)
		return e.Value.(*lruEntry[K, V]).value
	}
	entry := &lruEntry[K, V]{key, create()}
	l.byKey[key] = l.order.PushFront(entry)
	if l.order.Len() > l.limit {
		l.drop(l.order.Back().Value.(*lruEntry[K, V]).key)
	}
	return entry.value
}

// drop forgets key.
func (l *lru[K, V]) drop(key K) {
	if e, ok := l.byKey[key]; ok {
		l.order.Remove(e)
		delete(l.byKey, key)
	}
}

// each calls f with every entry, the one used last first, until f says no.
func (l *lru[K, V]) each(f func(K, V) bool) {
	for e := l.order.Front(); e != nil; e = e.Next() {
		if entry := e.Value.(*lruEntry[K, V]); !f(entry.key, entry.value) {
			return
		}
	}
}
