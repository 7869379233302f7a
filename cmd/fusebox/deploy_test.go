//go:build unix

package main

import (
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/fusebox-go/fusebox/config"
)

// composition is what the tests read of deploy/compose.yaml.
type composition struct {
	Services map[string]composeService `yaml:"services"`
}

type composeService struct {
	Image       string            `yaml:"image"`
	Hostname    string            `yaml:"hostname"`
	Command     []string          `yaml:"command"`
	Environment map[string]string `yaml:"environment"`
	Volumes     []string          `yaml:"volumes"`
	Ports       []string          `yaml:"ports"`
	Networks    []string          `yaml:"networks"`
	Build       struct{ Context, Dockerfile string }
	Healthcheck struct{ Test []string }
}

const deployFolder = "../../deploy/"

func readComposition(t *testing.T) composition {
	t.Helper()
	text, err := os.ReadFile(deployFolder + "compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var c composition
	if err := yaml.Unmarshal(text, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// workers returns the services that are built here, by name.
func (c composition) workers() map[string]composeService {
	found := map[string]composeService{}
	for name, s := range c.Services {
		if s.Build.Dockerfile != "" {
			found[name] = s
		}
	}
	return found
}

// demanded is a value that docker compose takes from its environment, and
// does not start without.
var demanded = regexp.MustCompile(`^\$\{([A-Z_]+):\?[^}]+\}$`)

// configOf loads the configuration that a service mounts, with the environment
// that it is given.
func (s composeService) configOf(t *testing.T) *config.Config {
	t.Helper()
	for name, value := range s.Environment {
		if match := demanded.FindStringSubmatch(value); match == nil || match[1] != name {
			t.Errorf("%s: want a value from the environment of docker compose, ${%s:?why}, have %q", name, name, value)
		}
		t.Setenv(name, "not-a-secret")
	}
	local, _, _ := strings.Cut(s.Volumes[0], ":")
	c, err := config.Load(path.Join(deployFolder, local))
	if err != nil {
		t.Fatal(err)
	}
	for _, w := range config.Check(c) {
		t.Errorf("%v", w)
	}
	return c
}

// What the composition says fits what its image and its configuration say.
func TestCompositionFits(t *testing.T) {
	composition := readComposition(t)
	image := readDockerfile(t)
	if !strings.HasPrefix(image["ENTRYPOINT"], `["fusebox"]`) || image["USER"] == "" || strings.HasPrefix(image["USER"], "0") {
		t.Errorf("the image runs %s as the user %q", image["ENTRYPOINT"], image["USER"])
	}
	workers := composition.workers()
	if len(workers) != 3 {
		t.Fatalf("%d workers, want 3", len(workers))
	}
	published := map[string]bool{}
	for name, s := range workers {
		c := s.configOf(t)
		if missing := c.MissingSecrets(); len(missing) > 0 {
			t.Errorf("%s is not given all that its configuration names: %v", name, missing)
		}
		if _, mounted, _ := strings.Cut(strings.TrimSuffix(s.Volumes[0], ":ro"), ":"); mounted != path.Join(image["WORKDIR"], "fusebox.yaml") {
			t.Errorf("%s mounts %s, where the image does not look: it works in %s", name, mounted, image["WORKDIR"])
		}
		if s.Hostname != name {
			t.Errorf("%s reports as %q", name, s.Hostname)
		}
		if store := storeHost(t, c); composition.Services[store].Image == "" {
			t.Errorf("%s keeps its circuits at %s, which is no service", name, store)
		}
		at := strings.Split(s.Ports[0], ":") // address, port of this machine, port of the container
		if len(at) != 3 || at[0] != "127.0.0.1" || published[at[1]] || ":"+at[2] != portOf(c.Gateway.Listen) {
			t.Errorf("%s publishes %s; the gateway listens on %s", name, s.Ports[0], c.Gateway.Listen)
		}
		published[at[1]] = true
		if health := s.healthURL(t); ":"+health.Port() != portOf(c.Admin.Listen) {
			t.Errorf("%s is asked for its health at %s; the admin listener is %s", name, health, c.Admin.Listen)
		}
		app := &app{stdout: io.Discard, stderr: io.Discard}
		command, flags, err := app.rootCommand().Find(s.Command)
		if err != nil {
			t.Errorf("%s runs fusebox %v: %v", name, s.Command, err)
		} else if err := command.ParseFlags(flags); err != nil || command.Name() != "up" {
			t.Errorf("%s runs fusebox %v: %v", name, s.Command, err)
		}
	}
}

func storeHost(t *testing.T, c *config.Config) string {
	t.Helper()
	u, err := url.Parse(c.Store.URL())
	if err != nil || !c.Store.Shared() {
		t.Fatalf("the store is %v: want one that is shared", c.Store)
	}
	return u.Hostname()
}

// portOf returns an address without its host, as ":4040".
func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return ":" + port
}

// healthURL is what a service's health check asks for.
func (s composeService) healthURL(t *testing.T) *url.URL {
	t.Helper()
	test := s.Healthcheck.Test
	u, err := url.Parse(test[len(test)-1])
	if err != nil || u.Scheme != "http" {
		t.Fatalf("the health check %q asks for no URL", test)
	}
	return u
}

// goVersion finds the language version in a go.mod.
var goVersion = regexp.MustCompile(`(?m)^go ([0-9]+\.[0-9]+)`)

// readDockerfile returns the instructions of the image that is run, the newest
// of each, and checks that what it copies from here and builds is there.
func readDockerfile(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(deployFolder + "Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	module, err := os.ReadFile("../../go.mod")
	if err != nil {
		t.Fatal(err)
	}
	want := "FROM golang:" + goVersion.FindStringSubmatch(string(module))[1] + " AS build\n"
	if !strings.Contains(string(text), want) {
		t.Errorf("the image is built by another Go than go.mod asks for: want %s", want)
	}
	newest := map[string]string{}
	for line := range strings.Lines(string(text)) {
		instruction, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		newest[instruction] = rest
		if words := strings.Fields(rest); instruction == "COPY" && !strings.HasPrefix(rest, "--from") {
			for _, name := range words[:len(words)-1] {
				wantFile(t, "../../"+name)
			}
		}
		if instruction == "RUN" && strings.Contains(rest, "go build") {
			wantFile(t, "../../"+rest[strings.LastIndex(rest, " ")+1:])
		}
	}
	return newest
}

func wantFile(t *testing.T, name string) {
	t.Helper()
	if _, err := os.Stat(name); err != nil {
		t.Errorf("the image is built from what is not there: %v", err)
	}
}

// The composition as processes of this machine: a server with the store's
// settings, three workers with the configuration and the command that it names.
// All are healthy, want their token, and share their circuits.
func TestCompositionRuns(t *testing.T) {
	t.Parallel()
	composition := readComposition(t)
	host, _ := redisServer(t, composition.Services["valkey"].Command[1:]...)
	u := newUpstream(t)
	text, err := os.ReadFile(deployFolder + "fusebox.yaml")
	if err != nil {
		t.Fatal(err)
	}
	p := newPlace(t)
	p.write("fusebox.yaml", strings.ReplaceAll(string(text), "https://api.openai.com", u.URL))
	p.env = append(p.env, "FUSEBOX_STORE=redis://"+host+"/0")
	for _, s := range composition.workers() {
		for name := range s.Environment {
			p.env = append(p.env, name+"=the-"+name)
		}
		break // all have the same: see TestCompositionFits
	}
	p.must("config", "check")
	var fleet []*serving
	for _, s := range composition.workers() {
		worker := p.up(s.Command[1:]...)
		if got := ask(t, http.MethodGet, worker.admin+s.healthURL(t).Path, ""); got != http.StatusOK {
			t.Errorf("the health check is answered with %d", got)
		}
		if got := worker.complete(""); got != http.StatusUnauthorized {
			t.Errorf("without a token: %d", got)
		}
		if got := worker.complete("the-GATEWAY_TOKEN"); got != http.StatusOK {
			t.Errorf("with the token: %d", got)
		}
		if got := ask(t, http.MethodGet, worker.admin+"/metrics", "the-ADMIN_TOKEN"); got != http.StatusOK {
			t.Errorf("metrics: %d", got)
		}
		fleet = append(fleet, worker)
	}
	p.must("hold", "open", "model/provider/large", "--reason", "a test")
	for _, worker := range fleet {
		eventually(t, "a worker has heard of the hold", func() bool {
			return worker.complete("the-GATEWAY_TOKEN") == http.StatusServiceUnavailable
		})
	}
}

// complete asks the gateway for a chat completion and returns the status.
func (s *serving) complete(token string) int {
	s.t.Helper()
	return ask(s.t, http.MethodPost, s.gateway+"/v1/chat/completions", token)
}

// ask sends a request, with a token if there is one, and returns the status.
func ask(t *testing.T, method, url, token string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, url, strings.NewReader(`{"model":"large","messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	return answer.StatusCode
}
