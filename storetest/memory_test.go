package storetest_test

import (
	"fmt"
	"sync"
	"testing"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/storetest"
)

// The in-memory store: an address is a key in a map.
func TestMemory(t *testing.T) {
	var stores sync.Map
	next := 0
	storetest.Run(t, storetest.Subject{
		New: func(*testing.T) string {
			next++
			address := fmt.Sprint(next)
			stores.Store(address, fusebox.NewMemory())
			return address
		},
		Open: func(address string) (fusebox.Store, error) {
			s, _ := stores.Load(address)
			return s.(fusebox.Store), nil
		},
		Shares: true,
	})
}
