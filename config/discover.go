package config

import "strings"

// Where a local Ollama listens, and the paid providers with the variables that
// hold their keys.
const ollamaURL = "http://127.0.0.1:11434"

var providers = []struct {
	name, url, variable string
	dialect             Dialect
}{
	{"openai", "https://api.openai.com/v1", "OPENAI_API_KEY", OpenAI},
	{"anthropic", "https://api.anthropic.com/v1", "ANTHROPIC_API_KEY", Anthropic},
}

// Discover returns a configuration for what it finds: an Ollama on its usual
// port, then the providers whose keys are in the environment, all on one route,
// so that what is local and free is asked first. reachable says whether a
// server answers at a URL; env is os.Getenv or the like. Where nothing is found
// there are no backends.
func Discover(env func(string) string, reachable func(url string) bool) *Config {
	c := Default()
	if reachable(ollamaURL) {
		c.Backends = append(c.Backends, Backend{Name: "ollama", URL: ollamaURL + "/v1", Dialect: OpenAI})
	}
	for _, p := range providers {
		if strings.TrimSpace(env(p.variable)) != "" {
			c.Backends = append(c.Backends, Backend{Name: p.name, URL: p.url, Dialect: p.dialect, Key: Secret{Env: p.variable}})
		}
	}
	if len(c.Backends) == 0 {
		return c
	}
	var names []string
	for i := range c.Backends {
		c.Backends[i].path = joinPath("backends", c.Backends[i].Name)
		names = append(names, c.Backends[i].Name)
	}
	c.Routes = []Route{{Match: "*", Backends: InOrder(names...), Answers: AnswersPass}}
	return c
}
