package transport_test

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/transport"
)

func TestClassify(t *testing.T) {
	tests := []struct {
		status  int
		outcome fusebox.Outcome
		class   fusebox.Class
	}{
		{200, fusebox.Success, ""},
		{301, fusebox.Success, ""},
		{400, fusebox.Rejected, ""},
		{401, fusebox.Failure, fusebox.ClassAuth},
		{403, fusebox.Failure, fusebox.ClassAuth},
		{404, fusebox.Rejected, ""},
		{407, fusebox.Failure, fusebox.ClassAuth},
		{408, fusebox.Failure, fusebox.ClassTimeout},
		{422, fusebox.Rejected, ""},
		{429, fusebox.Throttled, ""},
		{500, fusebox.Failure, fusebox.ClassServer},
		{502, fusebox.Failure, fusebox.ClassServer},
		{503, fusebox.Failure, fusebox.ClassOverloaded},
		{504, fusebox.Failure, fusebox.ClassTimeout},
		{529, fusebox.Failure, fusebox.ClassOverloaded},
		{599, fusebox.Failure, fusebox.ClassServer},
	}
	for _, test := range tests {
		t.Run(http.StatusText(test.status), func(t *testing.T) {
			r := transport.Classify(&http.Response{StatusCode: test.status, Header: http.Header{}})
			if r.Outcome != test.outcome || r.Class != test.class {
				t.Errorf("%d is %v %q, want %v %q", test.status, r.Outcome, r.Class, test.outcome, test.class)
			}
			if failed := r.Outcome != fusebox.Success; failed != (r.Err != nil) {
				t.Errorf("%d has the error %v", test.status, r.Err)
			}
		})
	}
}

func TestClassifyRetryAfter(t *testing.T) {
	const date = "Sun, 01 Mar 2026 10:00:00 GMT"
	tests := []struct {
		name   string
		header map[string]string
		want   time.Duration // from now; 0 = it did not say
	}{
		{"absent", nil, 0},
		{"seconds", map[string]string{"Retry-After": "7"}, 7 * time.Second},
		{"fraction", map[string]string{"Retry-After": "0.25"}, 250 * time.Millisecond},
		{"milliseconds", map[string]string{"Retry-After-Ms": "1500", "Retry-After": "2"}, 1500 * time.Millisecond},
		{"milliseconds by another name", map[string]string{"X-Ms-Retry-After-Ms": "20"}, 20 * time.Millisecond},
		{"date by the server's clock", map[string]string{"Date": date, "Retry-After": "Sun, 01 Mar 2026 10:01:30 GMT"}, 90 * time.Second},
		{"date in the past", map[string]string{"Date": date, "Retry-After": "Sun, 01 Mar 2026 09:00:00 GMT"}, 0},
		{"zero", map[string]string{"Retry-After": "0"}, 0},
		{"negative", map[string]string{"Retry-After": "-5"}, 0},
		{"absurd", map[string]string{"Retry-After": "1e300"}, fusebox.MaxThrottle},
		{"a spent limit that lasts longer", map[string]string{"Retry-After": "2", "X-Ratelimit-Remaining": "0", "X-Ratelimit-Reset": "9"}, 9 * time.Second},
		{"nonsense", map[string]string{"Retry-After": "soon"}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				resp := &http.Response{StatusCode: 429, Header: http.Header{}}
				for name, value := range test.header {
					resp.Header.Set(name, value)
				}
				notBefore := transport.Classify(resp).NotBefore
				var got time.Duration
				if !notBefore.IsZero() {
					got = time.Until(notBefore)
				}
				if got != test.want {
					t.Errorf("asks for %v, want %v", got, test.want)
				}
			})
		})
	}
}

func TestClassifyRetryAfterDateWithoutDate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		until := time.Now().Add(time.Minute).Truncate(time.Second)
		resp := &http.Response{StatusCode: 503, Header: http.Header{"Retry-After": {until.UTC().Format(http.TimeFormat)}}}
		if got := transport.Classify(resp); got.Outcome != fusebox.Failure || !got.NotBefore.Equal(until) {
			t.Errorf("%v until %v, want failure until %v", got.Outcome, got.NotBefore, until)
		}
	})
}
