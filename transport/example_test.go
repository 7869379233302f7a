package transport_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/transport"
)

// A client whose calls to a host that is down cost nothing after the third.
func ExampleNew() {
	down := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer down.Close()

	policy := fusebox.DefaultPolicy("server")
	policy.Trip = []fusebox.Trip{fusebox.Streak(3)}
	box, err := fusebox.New(fusebox.Config{Policy: func(string) fusebox.Policy { return policy }})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close(context.Background())
	guarded, err := transport.New(transport.Config{Box: box})
	if err != nil {
		fmt.Println(err)
		return
	}
	client := &http.Client{Transport: guarded}

	for range 4 {
		resp, err := client.Get(down.URL)
		if denial := fusebox.AsDenial(err); denial != nil {
			fmt.Println("denied:", denial.Reason(), "after", denial.Failures(), "failures")
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		fmt.Println(resp.Status)
	}
	// Output:
	// 502 Bad Gateway
	// 502 Bad Gateway
	// 502 Bad Gateway
	// denied: open after 3 failures
}

// One circuit for each part of an API, and an API that says 403 for "not yours".
func ExampleConfig() {
	box, err := fusebox.New(fusebox.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer box.Close(context.Background())
	guarded, err := transport.New(transport.Config{
		Box: box,
		Circuit: func(r *http.Request) string {
			if r.URL.Path == "/search" {
				return "tool/crm/search"
			}
			return transport.Host(r)
		},
		Classify: func(resp *http.Response) fusebox.Result {
			if resp.StatusCode == http.StatusForbidden {
				return fusebox.Result{Outcome: fusebox.Rejected}
			}
			return transport.Classify(resp)
		},
	})
	fmt.Println(guarded != nil, err)
	// Output: true <nil>
}
