package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"
)

// node is a process that asks models through the official packages for Node,
// for all tests that want it; it ends with them, as its input does.
type node struct {
	mu      sync.Mutex
	in      io.Writer
	last    int
	waiting map[int]chan nodeAnswer
	ended   chan struct{} // closed when it has
}

type nodeAnswer struct {
	ID          int
	Text, Error string
}

// startNode installs the packages by their lock file, if they are not there,
// and starts the process, once.
var startNode = sync.OnceValues(func() (*node, error) {
	dir := filepath.Join("testdata", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "@anthropic-ai", "sdk")); err != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
		defer cancel()
		install := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("npm ci in %s: %w\n%s", dir, err, out)
		}
	}
	process := exec.Command("node", "client.mjs")
	process.Dir, process.Stderr = dir, os.Stderr
	in, err := process.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := process.Start(); err != nil {
		return nil, err
	}
	n := &node{in: in, waiting: map[int]chan nodeAnswer{}, ended: make(chan struct{})}
	go func() {
		defer close(n.ended)
		for s := bufio.NewScanner(out); s.Scan(); {
			n.take(s.Bytes())
		}
		process.Wait()
	}()
	return n, nil
})

// take hands an answer to who waits for it.
func (n *node) take(line []byte) {
	var a nodeAnswer
	if err := json.Unmarshal(line, &a); err != nil {
		a.Error = err.Error()
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if waits := n.waiting[a.ID]; waits != nil {
		waits <- a
		delete(n.waiting, a.ID)
	}
}

// ask sends a question, whose answer comes on the channel.
func (n *node) ask(api, url string, stream bool) (<-chan nodeAnswer, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.last++
	question, err := json.Marshal(map[string]any{"id": n.last, "api": api, "url": url, "stream": stream})
	if err != nil {
		return nil, err
	}
	waits := make(chan nodeAnswer, 1)
	n.waiting[n.last] = waits
	_, err = n.in.Write(append(question, '\n'))
	return waits, err
}

// nodeClient asks through the official package for an API at a URL.
func nodeClient(t *testing.T, api, url string) asker {
	t.Helper()
	n, err := startNode()
	if err != nil {
		t.Fatal(err)
	}
	return func(ctx context.Context, stream bool) (string, error) {
		waits, err := n.ask(api, url, stream)
		if err != nil {
			return "", err
		}
		select {
		case a := <-waits:
			if a.Error != "" {
				return "", errors.New(a.Error)
			}
			return a.Text, nil
		case <-n.ended:
			return "", errors.New("node has ended")
		case <-ctx.Done():
			return "", ctx.Err()
		}
	}
}
