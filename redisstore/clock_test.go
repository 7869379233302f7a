//go:build unix

package redisstore

import (
	"context"
	"reflect"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
)

// wrongClock is the store as a worker sees it whose clock is ahead by so much.
// The worker's clock is right, and all times of the store are earlier instead.
type wrongClock struct {
	*Store
	ahead time.Duration
}

func (c wrongClock) Apply(ctx context.Context, circuit string, p fusebox.Policy, events ...fusebox.Event) (fusebox.State, error) {
	s, err := c.Store.Apply(ctx, circuit, p, shifted(events, c.ahead)...)
	return shifted(s, -c.ahead), err
}

func (c wrongClock) Watch(ctx context.Context, changed func(circuit string, s fusebox.State)) error {
	return c.Store.Watch(ctx, func(circuit string, s fusebox.State) { changed(circuit, shifted(s, -c.ahead)) })
}

// shifted is a copy of v in which every time is later by so much.
func shifted[T any](v T, by time.Duration) T {
	shift(reflect.ValueOf(&v).Elem(), by)
	return v
}

func shift(v reflect.Value, by time.Duration) {
	if t, ok := v.Interface().(time.Time); ok {
		if !t.IsZero() {
			v.Set(reflect.ValueOf(t.Add(by)))
		}
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				shift(v.Field(i), by)
			}
		}
	case reflect.Slice:
		c := reflect.MakeSlice(v.Type(), v.Len(), v.Len())
		reflect.Copy(c, v)
		for i := range c.Len() {
			shift(c.Index(i), by)
		}
		v.Set(c)
	case reflect.Pointer:
		if !v.IsNil() {
			c := reflect.New(v.Type().Elem())
			c.Elem().Set(v.Elem())
			shift(c.Elem(), by)
			v.Set(c)
		}
	}
}

// The clock of one worker is wrong: what it reports counts as if it were right,
// and nobody waits longer or shorter because of it.
func TestWorkerClockWrong(t *testing.T) {
	for _, ahead := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(ahead.String(), func(t *testing.T) {
			s := startServer(t)
			right := newWorker(t, s.url(), policy())
			store := openStore(t, s.url())
			wrong := newWorkerWith(t, "", store, wrongClock{store, ahead}, policy())
			wrong.fail(2)
			wrong.flush()
			right.fail(1)
			right.becomes(fusebox.Open)
			wrong.becomes(fusebox.Open)
			for e, err := range right.store.Evidence(t.Context(), name, time.Time{}) {
				if err != nil || time.Since(e.At).Abs() > time.Minute {
					t.Errorf("recorded as of %v: %+v, %v", e.At, e, err)
				}
			}
			if left := wrong.circuit.Status().RetryAfter; left > policy().Cooldown.After {
				t.Errorf("it would wait for %v, with a cooldown of %v", left, policy().Cooldown.After)
			}
			t.Logf("recovered after %v, with a cooldown of %v", wrong.recovers(), policy().Cooldown.After)
			t.Logf("the other heard %v later", right.becomes(fusebox.Closed))
		})
	}
}
