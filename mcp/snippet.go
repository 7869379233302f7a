package mcp

import (
	"encoding/json"
	"fmt"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Entry is how a client reaches a guarded server: by a command, or at a URL.
type Entry struct {
	Name    string
	Command []string // the guard's own program and its arguments
	URL     string   // of a guard that serves over HTTP
}

// Clients are those that [Snippet] knows.
func Clients() []string { return []string{"claude", "cursor", "vscode", "codex"} }

// Snippet is what to paste into a client's configuration.
func Snippet(client string, servers ...Entry) (string, error) {
	switch client {
	case "claude": // .mcp.json, claude_desktop_config.json
		return jsonSnippet("mcpServers", "", "http", servers), nil
	case "cursor": // .cursor/mcp.json
		return jsonSnippet("mcpServers", "", "", servers), nil
	case "vscode": // .vscode/mcp.json
		return jsonSnippet("servers", "stdio", "http", servers), nil
	case "codex": // ~/.codex/config.toml
		return tomlSnippet(servers), nil
	}
	return "", fmt.Errorf("unknown client %q: want one of %s", client, strings.Join(Clients(), ", "))
}

// jsonSnippet is the form that most clients read. local and remote are what
// they call the two kinds of servers, "" if they need no word.
func jsonSnippet(section, local, remote string, servers []Entry) string {
	type server struct {
		Type    string   `json:"type,omitempty"`
		Command string   `json:"command,omitempty"`
		Args    []string `json:"args,omitempty"`
		URL     string   `json:"url,omitempty"`
	}
	byName := map[string]server{}
	for _, e := range servers {
		if e.URL != "" {
			byName[e.Name] = server{Type: remote, URL: e.URL}
		} else {
			byName[e.Name] = server{Type: local, Command: e.Command[0], Args: e.Command[1:]}
		}
	}
	return indented(map[string]map[string]server{section: byName})
}

func indented(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(v); err != nil {
		panic(err) // strings can always be written
	}
	return b.String()
}

// tomlSnippet is Codex's form. TOML's strings may be written as JSON's are.
func tomlSnippet(servers []Entry) string {
	var tables []string
	for _, e := range servers {
		name := e.Name
		if !bareKey.MatchString(name) {
			name = quoted(name)
		}
		table := "[mcp_servers." + name + "]\n"
		if e.URL != "" {
			table += "url = " + quoted(e.URL) + "\n"
		} else {
			table += "command = " + quoted(e.Command[0]) + "\nargs = [" + quotedList(e.Command[1:]) + "]\n"
		}
		tables = append(tables, table)
	}
	return strings.Join(tables, "\n")
}

func quotedList(words []string) string {
	var list []string
	for _, w := range words {
		list = append(list, quoted(w))
	}
	return strings.Join(list, ", ")
}

var bareKey = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

func quoted(s string) string { return strings.TrimSpace(indented(s)) }

// launchers start a server that one of their arguments names.
var launchers = []string{"npx", "bunx", "node", "bun", "deno", "uvx", "uv", "pipx", "python", "python3", "docker", "podman", "env", "sh", "bash"}

// launcherWords are arguments of launchers that name no server.
var launcherWords = []string{"run", "exec", "x", "tool"}

// nameParts is what a server's name is made of.
var nameParts = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// NameOf is a name for a server that was given none: its program's, or that of
// what a launcher such as npx starts.
func NameOf(command []string) string {
	named := command[0]
	if slices.Contains(launchers, programName(named)) {
		for _, a := range command[1:] {
			if !strings.HasPrefix(a, "-") && !slices.Contains(launcherWords, a) {
				named = a
				break
			}
		}
	}
	name := programName(named)
	if name, _, _ = strings.Cut(name, "@"); name == "" { // a version
		name = programName(command[0])
	}
	name = strings.Trim(nameParts.ReplaceAllString(name, "-"), "-.")
	if name == "" {
		return "mcp"
	}
	return strings.ToLower(name)
}

// programName is the last part of a path, without the ending of a program.
func programName(p string) string {
	name := path.Base(filepath.ToSlash(p))
	for _, ending := range []string{".exe", ".cmd", ".js", ".mjs", ".cjs", ".ts", ".py", ".sh"} {
		name = strings.TrimSuffix(name, ending)
	}
	return name
}
