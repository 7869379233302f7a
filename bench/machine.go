package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
)

// otherPeers are modules that are measured beside the circuits' libraries.
var otherPeers = []string{
	"github.com/go-redsync/redsync/v4", "github.com/redis/go-redis/v9",
	"github.com/mark3labs/mcp-go", "github.com/modelcontextprotocol/go-sdk", "go.etcd.io/bbolt", "modernc.org/sqlite",
}

// describeMachine says where and with what was measured.
func describeMachine(out io.Writer, rounds int) {
	fmt.Fprintf(out, "%s, %s/%s, %d cores (%s), %d rounds; load when it began: %s.\n\n",
		runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), processor(), rounds, loadAverage())
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return
	}
	var versions []string
	for _, m := range info.Deps {
		isLibrary := func(l library) bool { return l.module == m.Path }
		if slices.ContainsFunc(libraries, isLibrary) && m.Path != fuseboxModule || slices.Contains(otherPeers, m.Path) {
			versions = append(versions, strings.TrimPrefix(m.Path, "github.com/")+" "+m.Version)
		}
	}
	fmt.Fprintf(out, "Peers: %s.\n\n", strings.Join(versions, ", "))
}

// processor is what Linux calls the first one.
func processor() string {
	info, _ := os.ReadFile("/proc/cpuinfo")
	for line := range strings.Lines(string(info)) {
		if key, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(key) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return "unknown"
}

func loadAverage() string {
	averages, _ := os.ReadFile("/proc/loadavg")
	first, _, _ := strings.Cut(string(averages), " ")
	return cmp.Or(first, "unknown")
}
