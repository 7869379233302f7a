//go:build unix

package mcp_test

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"
)

// pipe speaks to a program by lines.
type pipe struct {
	in  io.WriteCloser
	out *bufio.Reader
	cmd *exec.Cmd
}

func openPipe(b *testing.B, command ...string) *pipe {
	b.Helper()
	cmd := exec.Command(command[0], command[1:]...)
	in, err := cmd.StdinPipe()
	if err != nil {
		b.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		b.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		in.Close()
		cmd.Wait()
	})
	p := &pipe{in, bufio.NewReaderSize(out, 1<<20), cmd}
	p.ask(b, `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"b","version":"1"}}}`, `"hello"`)
	io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return p
}

// ask sends a line and reads up to the answer, which holds a mark.
func (p *pipe) ask(b *testing.B, line, mark string) {
	if _, err := io.WriteString(p.in, line+"\n"); err != nil {
		b.Fatal(err)
	}
	for {
		answer, err := p.out.ReadString('\n')
		if err != nil {
			b.Fatal(err)
		}
		if strings.Contains(answer, mark) {
			return
		}
	}
}

// BenchmarkEcho calls server-everything's echo directly, through a relay of
// bytes and through the guard, by turns, and has the guard deny a call. It
// reports the medians.
func BenchmarkEcho(b *testing.B) {
	server := npm(b, "mcp-server-everything", "stdio")
	through := func(kind string) []string {
		return append([]string{"env", partyVariable + "=" + kind, os.Args[0]}, server...)
	}
	ways := []struct {
		name, tool, args string
		pipe             *pipe
	}{
		{"direct", "echo", `{"message":"hello"}`, openPipe(b, server...)},
		{"relay", "echo", `{"message":"hello"}`, openPipe(b, through("relay")...)},
		{"guard", "echo", `{"message":"hello"}`, openPipe(b, through("guard")...)},
		{"denial", "no_such_tool", `{}`, nil},
	}
	ways[3].pipe = ways[2].pipe
	took := map[string][]time.Duration{}
	n := 0
	ask := func(way int) time.Duration {
		n++
		w := ways[way]
		began := time.Now()
		w.pipe.ask(b, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s}}`, n, w.tool, w.args), fmt.Sprintf(`"id":%d`, n))
		return time.Since(began)
	}
	for range 50 { // warm up, and have the call denied
		for way := range ways {
			ask(way)
		}
	}
	for b.Loop() {
		for way, w := range ways {
			took[w.name] = append(took[w.name], ask(way))
		}
	}
	median := func(name string) float64 {
		slices.Sort(took[name])
		return float64(took[name][len(took[name])/2].Nanoseconds()) / 1000
	}
	for _, w := range ways {
		b.ReportMetric(median(w.name), w.name+"-µs")
	}
	b.ReportMetric(median("guard")/median("relay"), "guard/relay")
	b.ReportMetric(median("denial")/median("direct"), "denial/direct")
}
