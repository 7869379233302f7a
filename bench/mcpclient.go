package main

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os/exec"
	"strings"
)

// mcpClient speaks to an MCP server, one request after the other.
type mcpClient interface {
	// ask sends a message and returns the answer to it, nothing if that has no
	// content. It is valid until the next ask.
	ask(message string, wantsAnswer bool) (answer []byte, err error)

	close()
}

const (
	mcpRelease = "2025-06-18"
	mcpHello   = `{"jsonrpc":"2.0","id":"hello","method":"initialize","params":{"protocolVersion":"` + mcpRelease + `","capabilities":{},"clientInfo":{"name":"bench","version":"1"}}}`
	mcpReady   = `{"jsonrpc":"2.0","method":"notifications/initialized"}`
)

// greet begins the conversation.
func greet(c mcpClient) error {
	if _, err := c.ask(mcpHello, true); err != nil {
		return err
	}
	_, err := c.ask(mcpReady, false)
	return err
}

// toolCall is a call of a tool that takes a text.
func toolCall(id int, tool, text string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":%q}}}`, id, tool, text)
}

// pipeClient is a client that has started its server, as most do.
type pipeClient struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

func openPipe(cmd *exec.Cmd) (mcpClient, error) {
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c := &pipeClient{cmd, in, bufio.NewReaderSize(out, 64<<10)}
	if err := greet(c); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *pipeClient) ask(message string, wantsAnswer bool) ([]byte, error) {
	if _, err := io.WriteString(c.in, message+"\n"); err != nil {
		return nil, err
	}
	for wantsAnswer {
		line, err := c.out.ReadSlice('\n')
		if err != nil || bytes.Contains(line, []byte(`"id":`)) {
			return line, err
		} // else a notification
	}
	return nil, nil
}

func (c *pipeClient) close() {
	c.in.Close()
	c.cmd.Wait()
}

// urlClient is a client of streamable HTTP.
type urlClient struct {
	url     string
	session string
	http    http.Client
	answer  bytes.Buffer
}

func openURL(url string) (mcpClient, error) {
	c := &urlClient{url: url, http: http.Client{Transport: &http.Transport{}}}
	return c, greet(c)
}

func (c *urlClient) ask(message string, wantsAnswer bool) ([]byte, error) {
	request, err := http.NewRequest(http.MethodPost, c.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	if c.session != "" {
		request.Header.Set("Mcp-Session-Id", c.session)
		request.Header.Set("Mcp-Protocol-Version", mcpRelease)
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	c.answer.Reset()
	if _, err := c.answer.ReadFrom(response.Body); err != nil {
		return nil, err
	}
	if wantsAnswer != (response.StatusCode == http.StatusOK) {
		return nil, fmt.Errorf("answered %s: %.200s", response.Status, c.answer.Bytes())
	}
	if id := response.Header.Get("Mcp-Session-Id"); id != "" {
		c.session = id
	}
	return c.answer.Bytes(), nil
}

func (c *urlClient) close() { c.http.CloseIdleConnections() }
