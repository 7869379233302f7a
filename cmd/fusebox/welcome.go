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
	switch {
	case s.demo != nil:
		s.welcomeDemo(say)
	case c.File != "":
		say("serving %s, by %s", backendWords(c.Backends), c.File)
	default:
		say("no fusebox.yaml: serving what was found on this machine: %s", backendWords(c.Backends))
	}
	if c.Mode == config.ModeObserve {
		say("observed only: nothing is refused")
	}
	say("base URL for OpenAI clients %s/v1, for Anthropic clients %s", s.front.url(), s.front.url())
	if address, err := s.a.storeAddress(c); err == nil {
		say("circuits in %s; look with: fusebox status, fusebox events --follow", address)
	}
}

// welcomeDemo says that nothing here is real, and what to do about it.
func (s *server) welcomeDemo(say func(format string, args ...any)) {
	if !s.flags.demo {
		say("no fusebox.yaml, no Ollama on its port, no OPENAI_API_KEY and no ANTHROPIC_API_KEY: this is a demo")
	}
	say("demo: two scripted backends and a caller; no model answers. demo-flaky fails in turns, demo-steady takes over")
	say("watch: curl -s %s/v1/circuits, or in another shell: fusebox events --follow", s.back.url())
}

func backendWords(backends []config.Backend) string {
	var words []string
	for _, b := range backends {
		words = append(words, fmt.Sprintf("%s (%s)", b.Name, b.URL))
	}
	return strings.Join(words, ", ")
}
