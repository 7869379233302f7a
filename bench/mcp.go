package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// mcpWay is a way from a client to the server's tool, and how long calls took
// that went it.
type mcpWay struct {
	name   string
	client mcpClient
	tool   string
	mark   string // is in every answer
	took   spread // microseconds
}

// The ways that are compared; every transport has them.
const (
	mcpDirect = "none: the server itself"
	mcpBytes  = "byte relay"
	mcpGuard  = "fusebox mcp"
	mcpDenied = "fusebox mcp, a call that it denies"
)

const (
	mcpTurns = 40 // a round
	mcpCalls = 10 // a turn: enough to be warm, few enough that a hiccup is nobody's alone
)

// mcpTransports are how the parties may be connected.
var mcpTransports = []struct {
	name string
	open func(*mcpBench) error
}{
	{"stdio", (*mcpBench).openPipes},
	{"streamable HTTP", (*mcpBench).openURLs},
}

// mcpBench is what is open while one transport is measured.
type mcpBench struct {
	binary, config string // of fusebox
	ways           []*mcpWay
	servers        []*server
	ids            int
}

// mcpGuards measures the guard of MCP servers beside relays.
func (f *findings) mcpGuards(out io.Writer) error {
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := buildFusebox(dir)
	if err != nil {
		return err
	}
	config := filepath.Join(dir, "fusebox.yaml")
	text := fmt.Sprintf("store: file://%s/state\nthrash: {stop_after: 0}\n", dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return err
	}
	fmt.Fprint(out, "## MCP guard\n\nMicroseconds from a tool call to its answer, through one client, to the same server of go-sdk; the guard keeps its evidence in a filestore. Over stdio whatever stands between starts the server. The relays of go-sdk and mcp-go are a server whose tools call a client's. A denied call has failed three times before.\n\n")
	t := newTable("way", "transport", "p50 µs", "middle half", "p99 µs", "of none", "of byte relay")
	for _, transport := range mcpTransports {
		b := &mcpBench{binary: binary, config: config}
		err := b.run(f.times(f.rounds*mcpTurns), transport.open)
		b.close()
		if err != nil {
			return fmt.Errorf("%s: %w", transport.name, err)
		}
		took := map[string]spread{}
		for _, w := range b.ways {
			took[w.name] = w.took
		}
		f.mcp[transport.name] = took
		for _, w := range b.ways {
			p50 := w.took.median()
			t.row(w.name, transport.name, short(p50), w.took.middle(), short(w.took.at(0.99)),
				short(p50/took[mcpDirect].median()), short(p50/took[mcpBytes].median()))
		}
	}
	t.print(out)
	return nil
}

// run opens all ways and lets them take turns.
func (b *mcpBench) run(turns int, open func(*mcpBench) error) error {
	if err := open(b); err != nil {
		return err
	}
	for _, w := range b.ways {
		for range 5 * mcpCalls { // warm up; the first of those to be denied still pass
			if _, err := b.call(w); err != nil {
				return fmt.Errorf("%s: %w", w.name, err)
			}
		}
	}
	var failed error
	var takers []func()
	for _, w := range b.ways {
		takers = append(takers, func() {
			if failed == nil {
				failed = b.turn(w)
			}
		})
	}
	interleave(turns, takers)
	return failed
}

// turn makes some calls and notes how long they took.
func (b *mcpBench) turn(w *mcpWay) error {
	for range mcpCalls {
		began := time.Now()
		answer, err := b.call(w)
		took := time.Since(began)
		if err == nil && !bytes.Contains(answer, []byte(w.mark)) {
			err = fmt.Errorf("want %s in %.300s", w.mark, answer)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		w.took.add(float64(took) / float64(time.Microsecond))
	}
	return nil
}

func (b *mcpBench) call(w *mcpWay) ([]byte, error) {
	b.ids++
	return w.client.ask(toolCall(b.ids, w.tool, "hello"), true)
}

// add takes in a way that was just opened.
func (b *mcpBench) add(name string, c mcpClient, err error) error {
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	b.ways = append(b.ways, &mcpWay{name: name, client: c, tool: echoTool, mark: `"text":"hello"`})
	if name == mcpGuard {
		b.ways = append(b.ways, &mcpWay{name: mcpDenied, client: c, tool: brokenTool, mark: "io.github.fusebox-go/denied"})
	}
	return nil
}

func (b *mcpBench) openPipes() error {
	program := func(args ...string) []string { return append([]string{os.Args[0], child, "mcp"}, args...) }
	server := program("server")
	for _, way := range []struct {
		name    string
		command []string
	}{
		{mcpDirect, nil},
		{mcpBytes, program("bytes")},
		{mcpGuard, []string{b.binary, "mcp", "--config", b.config, "--name", "echo", "--"}},
		{"relay through go-sdk", program("go-sdk")},
		{"relay through mcp-go", program("mcp-go")},
	} {
		words := append(way.command, server...)
		cmd := exec.Command(words[0], words[1:]...)
		cmd.Stderr = os.Stderr
		c, err := openPipe(cmd)
		if err := b.add(way.name, c, err); err != nil {
			return err
		}
	}
	return nil
}

func (b *mcpBench) openURLs() error {
	up, err := b.serve(startChild("mcp", "server-http"), asIs)
	if err != nil {
		return err
	}
	guard := exec.Command(b.binary, "mcp", "--config", b.config, "--json", "--url", mcpURL(up), "--listen", "127.0.0.1:0")
	guard.Stderr = os.Stderr
	for _, way := range []struct {
		name    string
		cmd     *exec.Cmd
		address func(string) (string, error)
	}{
		{mcpDirect, nil, nil},
		{mcpBytes, startChild("mcp", "bytes-http", up), asIs},
		{"bare Go forwarder", startChild("bare", up), asIs},
		{mcpGuard, guard, ofMCPGuard},
		{"relay through go-sdk", startChild("mcp", "go-sdk-http", up), asIs},
		{"relay through mcp-go", startChild("mcp", "mcp-go-http", up), asIs},
	} {
		address := up
		if way.cmd != nil {
			if address, err = b.serve(way.cmd, way.address); err != nil {
				return fmt.Errorf("%s: %w", way.name, err)
			}
		}
		c, err := openURL(mcpURL(address))
		if err := b.add(way.name, c, err); err != nil {
			return err
		}
	}
	return nil
}

// serve starts a server that is stopped in the end.
func (b *mcpBench) serve(cmd *exec.Cmd, address func(string) (string, error)) (string, error) {
	s, err := serve(cmd, address)
	if err != nil {
		return "", err
	}
	b.servers = append(b.servers, s)
	return s.address, nil
}

// ofMCPGuard reads what `fusebox mcp --json` says.
func ofMCPGuard(line string) (string, error) {
	var said struct{ URL string }
	if err := json.Unmarshal([]byte(line), &said); err != nil {
		return "", err
	}
	u, err := url.Parse(said.URL)
	if err != nil {
		return "", err
	}
	return u.Host, nil
}

func (b *mcpBench) close() {
	for _, w := range b.ways {
		if w.name != mcpDenied {
			w.client.close()
		}
	}
	for _, s := range b.servers {
		s.stop()
	}
}
