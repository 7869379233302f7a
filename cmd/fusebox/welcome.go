package main

import (
	"fmt"
	"strings"

	"github.com/fusebox-go/fusebox/config"
)

// welcome says on standard error what is served, and where to look.
func (s *server) welcome() {
	say := func(format string, args ...any) { fmt.Fprintf(s.a.stderr, format+"\n", args...) }
	c := s.config
	from := "what was found on this machine"
	if c.File != "" {
		from = c.File
	}
	say("serving %s, by %s", backendWords(c.Backends), from)
	if c.Mode == config.ModeObserve {
		say("observed only: nothing is refused")
	}
	say("base URL for OpenAI clients %s/v1, for Anthropic clients %s", s.front.url(), s.front.url())
	if address, err := s.a.storeAddress(c); err == nil {
		say("circuits in %s; look with: fusebox status, fusebox events --follow", address)
	}
}

func backendWords(backends []config.Backend) string {
	var words []string
	for _, b := range backends {
		words = append(words, fmt.Sprintf("%s (%s)", b.Name, b.URL))
	}
	return strings.Join(words, ", ")
}
