package gateway_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox/gateway"
)

// nodeClient starts the official openai package as a client of the gateway.
func nodeClient(t *testing.T, f *front) asker {
	t.Helper()
	dir := filepath.Join("testdata", "node")
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "openai")); err != nil {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		install := exec.CommandContext(ctx, "npm", "ci", "--no-audit", "--no-fund", "--loglevel=error")
		install.Dir = dir
		if out, err := install.CombinedOutput(); err != nil {
			t.Fatalf("npm ci in %s: %v\n%s", dir, err, out)
		}
	}
	node := exec.CommandContext(t.Context(), "node", "client.mjs", f.URL+"/v1")
	node.Dir, node.Stderr = dir, os.Stderr
	in, err := node.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := node.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := node.Start(); err != nil {
		t.Fatal(err)
	}
	lines := make(chan []byte)
	go func() {
		defer close(lines)
		for s := bufio.NewScanner(out); s.Scan(); {
			lines <- append([]byte(nil), s.Bytes()...)
		}
	}()
	t.Cleanup(func() {
		in.Close()
		for range lines { // until it has ended
		}
		node.Wait()
	})
	return func(ctx context.Context, stream bool) (string, error) {
		how := "plain"
		if stream {
			how = "stream"
		}
		if _, err := fmt.Fprintln(in, how); err != nil {
			return "", err
		}
		var answer struct{ Text, Error string }
		select {
		case line, ok := <-lines:
			if !ok {
				return "", errors.New("node has ended")
			}
			if err := json.Unmarshal(line, &answer); err != nil {
				return "", err
			}
		case <-time.After(30 * time.Second):
			return "", errors.New("node does not answer")
		}
		if answer.Error != "" {
			return "", errors.New(answer.Error)
		}
		return answer.Text, nil
	}
}

func TestOpenAINodeSDK(t *testing.T) {
	f, a, b := sdkPair(t, chats("from a"), chats("from b"), gateway.OpenAI)
	firstBackendStory(t, a, b, f, chats("from a"), chatStream("from", "reset"), nodeClient(t, f))
}
