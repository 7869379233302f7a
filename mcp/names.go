package mcp

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/fusebox-go/fusebox"
)

// maxTools bounds the tools of a server that have circuits of their own: their
// names come from callers. The rest share one.
const maxTools = 200

// tools holds the circuits of a server's tools.
type tools struct {
	box    *fusebox.Box
	server string
	shared string // name of the circuit that the rest shares

	mu     sync.Mutex
	byName map[string]string // tool to circuit
}

func newTools(box *fusebox.Box, server string) *tools {
	return &tools{box: box, server: server, shared: "tool/" + server + "/*", byName: map[string]string{}}
}

// circuit returns a tool's circuit, and whether it shares that with others.
func (t *tools) circuit(tool string) (c *fusebox.Circuit, shared bool, err error) {
	t.mu.Lock()
	name, known := t.byName[tool]
	switch {
	case known:
	case len(t.byName) < maxTools:
		name = circuitName(t.server, tool)
		t.byName[tool] = name
	default:
		name = t.shared
	}
	t.mu.Unlock()
	c, err = t.box.Circuit(name)
	return c, name == t.shared, err
}

// circuitName is the name of a tool's circuit: tool/SERVER/TOOL. What cannot be
// part of a circuit's name is percent-encoded; where the name would be too long
// a hash stands for it.
func circuitName(server, tool string) string {
	prefix := "tool/" + server + "/"
	name := prefix + escapeTool(tool, false)
	canonical, err := fusebox.CanonicalName(name)
	if err == nil && canonical == strings.ToLower(name) {
		return canonical
	}
	if canonical, err = fusebox.CanonicalName(prefix + escapeTool(tool, true)); err == nil {
		return canonical
	}
	sum := sha256.Sum256([]byte(tool))
	return prefix + "~" + hex.EncodeToString(sum[:10])
}

// escapeTool percent-encodes what a circuit's name cannot hold, "%" so that no
// two tools have one name, and "*", which is the name of what tools share.
// Slashes and dots make a difference to a path only in some places: then they
// are encoded, too.
func escapeTool(tool string, paths bool) string {
	var b strings.Builder
	for i := 0; i < len(tool); {
		r, size := utf8.DecodeRuneInString(tool[i:])
		legal := unicode.IsGraphic(r) && !unicode.IsSpace(r) && !strings.ContainsRune(`\%*~`, r) && (r != utf8.RuneError || size > 1)
		if paths && (r == '/' || r == '.') {
			legal = false
		}
		if legal {
			b.WriteString(tool[i : i+size])
		} else {
			for _, c := range []byte(tool[i : i+size]) {
				fmt.Fprintf(&b, "%%%02x", c)
			}
		}
		i += size
	}
	return b.String()
}
