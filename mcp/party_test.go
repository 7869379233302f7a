package mcp_test

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/mcp"
)

// The test program is also the server of its tests: one that does as it is
// told, and counts what reaches it.
const partyVariable = "FUSEBOX_TEST_PARTY"

func TestMain(m *testing.M) {
	switch os.Getenv(partyVariable) {
	case "":
		os.Exit(runTests(m))
	case "mirror": // says what it hears
		io.Copy(os.Stdout, os.Stdin)
	case "stillborn":
		os.Exit(7)
	case "guard": // of the command that the arguments are
		os.Exit(guardParty(os.Args[1:]))
	case "relay": // as the guard, without looking
		os.Exit(relayParty(os.Args[1:]))
	case "child": // holds its parent's streams, and does not want to end
		signal.Ignore(syscall.SIGTERM)
		fmt.Fprintln(os.Stderr, "child", os.Getpid())
		time.Sleep(time.Minute)
	default:
		serveParty()
	}
}

// programs is a folder for what the tests build.
var programs string

func runTests(m *testing.M) int {
	var err error
	if programs, err = os.MkdirTemp("", "fusebox-mcp-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(programs)
	return m.Run()
}

// party is the command of the test program as a server.
func party(kind string) []string { return []string{"env", partyVariable + "=" + kind, os.Args[0]} }

// guardParty guards a command, for clients that start their server themselves.
func guardParty(command []string) int {
	box, err := fusebox.New(fusebox.Config{})
	if err == nil {
		var guard *mcp.Guard
		if guard, err = mcp.New(mcp.Config{Box: box, Server: "s"}); err == nil {
			var code int
			if code, err = guard.Stdio(mcp.Stdio{Command: command, In: os.Stdin, Out: os.Stdout, Err: os.Stderr}); err == nil {
				return code
			}
		}
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// relayParty passes bytes to and from a command.
func relayParty(command []string) int {
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		return 1
	}
	out, err := cmd.StdoutPipe()
	if err != nil || cmd.Start() != nil {
		return 1
	}
	go func() {
		io.Copy(in, os.Stdin)
		in.Close()
	}()
	io.Copy(os.Stdout, out)
	cmd.Wait()
	return 0
}

// serveParty serves tools that are named for what they do.
func serveParty() {
	reached := map[string]int{}
	greetings := 0 // initialize and initialized
	in := bufio.NewReader(os.Stdin)
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			break
		}
		var m struct {
			ID     json.RawMessage
			Method string
			Params struct {
				Name      string
				Arguments struct{ Text string }
				Reason    string
			}
		}
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		if m.Method == "notifications/cancelled" {
			say(`{"jsonrpc":"2.0","method":"notifications/heard","params":{"reason":%q}}`, m.Params.Reason)
			say(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"too late"}]}}`)
			continue
		}
		if m.Method == "notifications/initialized" {
			greetings++
			continue
		}
		if m.Method == "initialize" {
			greetings++
			say(`{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","pid":%d}}`, m.ID, os.Getpid())
			continue
		}
		if m.Method == "" { // the person has answered
			say(`{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"asked"}]}}`)
			continue
		}
		if m.Method != "tools/call" {
			if m.ID != nil {
				say(`{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
			}
			continue
		}
		reached[m.Params.Name]++
		switch strings.TrimRight(m.Params.Name, "0123456789") {
		case "fail":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"isError":true,"content":[{"type":"text","text":"no such thing: %s"}]}}`, m.ID, m.Params.Arguments.Text)
		case "die":
			os.Exit(3)
		case "hang":
		case "hello":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%d"}]}}`, m.ID, greetings)
		case "ask": // the person
			say(`{"jsonrpc":"2.0","id":"q","method":"elicitation/create","params":{"message":"?"}}`)
		case "count":
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":"%d"}]}}`, m.ID, reached[m.Params.Arguments.Text])
		default:
			say(`{"jsonrpc":"2.0","id":%s,"result":{"content":[{"type":"text","text":%q}]}}`, m.ID, m.Params.Arguments.Text)
		}
	}
	if os.Getenv(partyVariable) == "stubborn" { // neither the end of its input nor a signal ends it
		signal.Ignore(syscall.SIGTERM)
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), partyVariable+"=child")
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		child.Start()
		time.Sleep(time.Minute)
	}
}

// patience bounds every wait of the tests: nothing takes so long.
const patience = 60 * time.Second

// talk is a client of a guarded server.
type talk struct {
	t       *testing.T
	box     *fusebox.Box
	in      io.WriteCloser
	out     chan string
	signals chan os.Signal
	ended   chan int
	errors  *lockedBuffer
}

// options are what a test wants otherwise than usual.
type options struct {
	box  fusebox.Config
	mcp  mcp.Config
	init bool // say initialize, and wait for the answer
}

// newBox is a box whose guard never denies because of the clock.
func newBox(t testing.TB, c fusebox.Config) *fusebox.Box {
	t.Helper()
	box, err := fusebox.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { box.Close(t.Context()) })
	return box
}

// newGuard is a guard of the server "s".
func newGuard(t testing.TB, box *fusebox.Box, c mcp.Config) *mcp.Guard {
	t.Helper()
	c.Box = box
	if c.Server == "" {
		c.Server = "s"
	}
	guard, err := mcp.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(guard.Close)
	return guard
}

// talkTo begins to talk to a guarded command.
func talkTo(t *testing.T, o options, command ...string) *talk {
	t.Helper()
	box := newBox(t, o.box)
	guard := newGuard(t, box, o.mcp)
	in, toGuard := io.Pipe()
	fromGuard, out := io.Pipe()
	k := &talk{t: t, box: box, in: toGuard, out: make(chan string, 1000), signals: make(chan os.Signal, 2), ended: make(chan int, 1), errors: &lockedBuffer{}}
	go func() {
		code, err := guard.Stdio(mcp.Stdio{Command: command, In: in, Out: out, Err: k.errors, Signals: k.signals})
		if err != nil {
			k.errors.Write([]byte(err.Error()))
		}
		out.Close()
		k.ended <- code
	}()
	go func() {
		lines := bufio.NewReader(fromGuard)
		for {
			line, err := lines.ReadString('\n')
			if line != "" {
				k.out <- line
			}
			if err != nil {
				close(k.out)
				return
			}
		}
	}()
	t.Cleanup(func() {
		toGuard.Close()
		for range k.out {
		}
		fromGuard.Close()
	})
	if o.init {
		k.send(`{"jsonrpc":"2.0","id":"init","method":"initialize","params":{}}`)
		k.want(`"id":"init"`)
		k.send(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	}
	return k
}

// send sends a line.
func (k *talk) send(line string) {
	k.t.Helper()
	if _, err := io.WriteString(k.in, line+"\n"); err != nil {
		k.t.Fatalf("sending: %v", err)
	}
}

// call asks for a tool.
func (k *talk) call(id int, tool, text string) {
	k.t.Helper()
	k.send(fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q},"_meta":{"progressToken":%d}}}`, id, tool, text, id))
}

// next returns the next line that the client gets.
func (k *talk) next() string {
	k.t.Helper()
	select {
	case line, ok := <-k.out:
		if !ok {
			k.t.Fatalf("the guard is gone: %s", k.errors)
		}
		return line
	case <-time.After(patience):
		k.t.Fatalf("nothing came; standard error: %s", k.errors)
	}
	return ""
}

// want wants the next line to hold every part.
func (k *talk) want(parts ...string) string {
	k.t.Helper()
	line := k.next()
	for _, part := range parts {
		if !strings.Contains(line, part) {
			k.t.Fatalf("have %.300s, want %s in it", line, part)
		}
	}
	return line
}

// end closes the client's side and returns the exit code.
func (k *talk) end() int {
	k.t.Helper()
	k.in.Close()
	return k.wait()
}

func (k *talk) wait() int {
	k.t.Helper()
	select {
	case code := <-k.ended:
		return code
	case <-time.After(patience):
		k.t.Fatalf("it does not end; standard error: %s", k.errors)
	}
	return -1
}

// status is that of a circuit.
func (k *talk) status(name string) fusebox.Status {
	k.t.Helper()
	c, err := k.box.Circuit(name)
	if err != nil {
		k.t.Fatal(err)
	}
	return c.Status()
}

// eventually waits for a condition of another process.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	limit := time.After(patience)
	for !holds() {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("%s: it never came", what)
		}
	}
}
