package gateway

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// deadlines is a client's connection that notes which deadlines it has.
type deadlines struct {
	*httptest.ResponseRecorder
	read, write atomic.Bool
}

func (d *deadlines) SetReadDeadline(t time.Time) error {
	d.read.Store(!t.IsZero())
	return nil
}

func (d *deadlines) SetWriteDeadline(t time.Time) error {
	d.write.Store(!t.IsZero())
	return nil
}

func (d *deadlines) any() bool { return d.read.Load() || d.write.Load() }

// attended is a watchdog in a request of such a client.
func attended() (*watchdog, *deadlines) {
	client := &deadlines{ResponseRecorder: httptest.NewRecorder()}
	w := new(watchdog)
	w.attend(http.NewResponseController(client))
	return w, client
}

// after lets a time pass, and whatever is due in it happen.
func after(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

func TestWatchdogEndsAnAttemptByItsLimit(t *testing.T) {
	for _, c := range []struct {
		name   string
		expect func(w *watchdog)
		after  time.Duration
		want   limitError
	}{
		{"the total", func(*watchdog) {}, time.Hour, limitError{theWhole, time.Hour}},
		{"a shorter one", func(w *watchdog) { w.expect(theHeaders, time.Minute) }, time.Minute, limitError{theHeaders, time.Minute}},
		{"one beyond the total", func(w *watchdog) { w.expect(theHeaders, 2*time.Hour) }, time.Hour, limitError{theWhole, time.Hour}},
		{"no other than the total", func(w *watchdog) {
			w.expect(theHeaders, time.Minute)
			w.expect(theNextToken, 0)
		}, time.Hour, limitError{theWhole, time.Hour}},
		{"the client being waited for before", func(w *watchdog) {
			w.expectClient(theClient, clientTime, time.Now())
			w.expect(theNextToken, time.Second)
		}, time.Second, limitError{theNextToken, time.Second}},
		{"one put off", func(w *watchdog) {
			w.expect(theNextToken, time.Minute)
			after(59 * time.Second)
			w.expect(theNextToken, time.Minute)
			after(59 * time.Second)
			w.expect(theNextToken, time.Minute)
		}, time.Minute, limitError{theNextToken, time.Minute}},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, client := attended()
				ctx := w.watch(context.Background(), time.Hour, time.Now())
				defer w.stop()
				c.expect(w)
				if after(c.after - 1); ctx.Err() != nil {
					t.Fatal("too early:", context.Cause(ctx))
				}
				after(1)
				var limit *limitError
				if !errors.As(context.Cause(ctx), &limit) || *limit != c.want {
					t.Errorf("%v, want %v", context.Cause(ctx), &c.want)
				}
				if client.any() {
					t.Error("the client was cut off")
				}
			})
		})
	}
}

func TestWatchdogCutsOffAClientThatIsTooSlow(t *testing.T) {
	for _, c := range []struct {
		what        string
		read, write bool
	}{{theRequest, true, false}, {theClient, false, true}} {
		t.Run(c.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, client := attended()
				ctx := w.watch(context.Background(), time.Second, time.Now())
				w.expectClient(c.what, time.Minute, time.Now())
				if after(time.Minute - 1); client.any() {
					t.Fatal("too early")
				}
				after(1)
				if read, write := client.read.Load(), client.write.Load(); read != c.read || write != c.write {
					t.Errorf("read %v, write %v", read, write)
				}
				if ctx.Err() != nil {
					t.Error("the backend's attempt was ended for it:", context.Cause(ctx))
				}
				if w.rest() {
					t.Error("it is said to have been in time")
				}
				w.stop()
				if w.leave(); client.any() {
					t.Error("the deadline is still there for the connection's next request")
				}
			})
		})
	}
}

// The timer runs on from one request into the next.
func TestWatchdogOfOneRequestDoesNotEndTheNext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, first := attended()
		w.watch(context.Background(), time.Minute, time.Now())
		w.expectClient(theClient, 30*time.Second, time.Now())
		if after(20 * time.Second); !w.rest() {
			t.Error("it is said to have been late")
		}
		w.stop()
		w.leave()
		second := &deadlines{ResponseRecorder: httptest.NewRecorder()}
		w.attend(http.NewResponseController(second))
		ctx := w.watch(context.Background(), time.Minute, time.Now())
		if after(59 * time.Second); ctx.Err() != nil {
			t.Error("ended:", context.Cause(ctx))
		}
		if after(time.Second); ctx.Err() == nil {
			t.Error("not ended by its own limit")
		}
		if first.any() || second.any() {
			t.Error("a client was cut off")
		}
		w.stop()
		w.leave()
		after(time.Hour) // what is armed fires, and ends nothing
	})
}
