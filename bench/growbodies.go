package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// bodyKind is a kind of large body that goes through the gateway.
type bodyKind string

const (
	sentBody     bodyKind = "sent"     // a request
	answeredBody bodyKind = "answered" // an answer in one piece
	streamedBody bodyKind = "streamed" // an answer of many events
)

var bodyKinds = []bodyKind{sentBody, answeredBody, streamedBody}

// bodiesEvent is one event of a streamed answer, of a kilobyte.
var bodiesEvent = []byte(`data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{"content":"` +
	strings.Repeat("word ", 170) + `"},"finish_reason":null}]}` + "\n\n")

// bodies answers with as many bytes as the model's name says, in one piece or
// as a stream.
func bodies() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		head := make([]byte, 64) // enough for what is asked
		n, err := io.ReadFull(r.Body, head)
		if err != nil {
			return
		}
		io.Copy(io.Discard, r.Body)
		_, after, _ := bytes.Cut(head[:n], []byte(`"model":"`))
		name, _, _ := bytes.Cut(after, []byte(`"`))
		size, err := strconv.Atoi(string(name))
		if err != nil {
			http.Error(w, "want a number for a model", http.StatusBadRequest)
			return
		}
		if bytes.Contains(head, []byte(`"stream":true`)) {
			streamBody(w, size)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		io.WriteString(w, `{"id":"c1","object":"chat.completion","created":1,"model":"m","choices":[{"index":0,"finish_reason":"stop","message":{"role":"assistant","content":"`)
		word := bytes.Repeat([]byte("word "), 1000)
		for left := size; left > 0; left -= len(word) {
			w.Write(word[:min(left, len(word))])
		}
		io.WriteString(w, `"}}]}`)
	})
}

func streamBody(w http.ResponseWriter, size int) {
	w.Header().Set("Content-Type", "text/event-stream")
	for sent := 0; sent < size; sent += len(bodiesEvent) {
		w.Write(bodiesEvent)
		w.(http.Flusher).Flush()
	}
	io.WriteString(w, `data: {"id":"c1","object":"chat.completion.chunk","created":1,"model":"m","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`+"\n\ndata: [DONE]\n\n")
}

// growingBodies sends ever larger bodies through the gateway.
func (f *findings) growingBodies(out io.Writer) error {
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	binary, err := buildFusebox(dir)
	if err != nil {
		return err
	}
	up, err := serve(startChild("bodies"), asIs)
	if err != nil {
		return err
	}
	defer up.stop()
	times := &grown{
		title: "bytes of a body", grows: "bytes", columns: []string{"ns a byte, sent", "ns a byte, answered", "ns a byte, streamed"},
		says: "Bodies through the gateway, one after the other: a request, an answer in one piece, and one of events of a kilobyte; wall time from the first byte sent to the last received.",
	}
	memory := &grown{
		title: "memory, by bytes of a body", grows: "bytes", columns: []string{"MB, sent", "MB, answered", "MB, streamed", "kB allocated, streamed"},
		says: "The most memory that a gateway of its own had for each, and what it allocated for one streamed answer. Requests are kept whole, in case that another backend must get them; of answers the first MiB at most.",
	}
	var gateways [][]*bodyGateway // by size and kind
	for _, size := range f.sizes(1000, 10_000, 100_000, 1_000_000, 10_000_000, 30_000_000) {
		var all []*bodyGateway
		for _, kind := range bodyKinds {
			g, err := startBodyGateway(binary, filepath.Join(dir, fmt.Sprint(kind, size)), up.address, kind, size)
			if err != nil {
				return fmt.Errorf("a gateway: %w", err)
			}
			defer g.stop()
			all = append(all, g)
		}
		gateways = append(gateways, all)
		times.lines = append(times.lines, &sized{size: size, run: func() (costs []float64, err error) {
			for _, g := range all {
				cost, err := g.perByte(f.times(max(100_000/size, 3)))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", g.kind, err)
				}
				costs = append(costs, cost)
			}
			return costs, nil
		}})
	}
	if err := f.grow(out, times); err != nil {
		return err
	}
	for i, all := range gateways {
		l := &sized{size: times.lines[i].size}
		for _, g := range all {
			l.took = append(l.took, spread{float64(g.peak()) / 1e6})
		}
		memory.lines = append(memory.lines, &sized{size: l.size, took: append(l.took, all[len(all)-1].allocated)})
	}
	f.show(out, memory)
	return nil
}

// bodyGateway is a gateway through which bodies of one kind and size go.
type bodyGateway struct {
	*server
	admin     string
	kind      bodyKind
	size      int
	request   []byte
	allocated spread // kilobytes, for one body
}

func startBodyGateway(binary, dir, upstream string, kind bodyKind, size int) (*bodyGateway, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	cmd, err := gatewayOf(binary, dir, upstream)
	if err != nil {
		return nil, err
	}
	g := &bodyGateway{kind: kind, size: size}
	switch kind {
	case sentBody:
		g.request = fmt.Appendf(nil, `{"model":"1","messages":[{"role":"user","content":"%s"}]}`, bytes.Repeat([]byte("word "), size/5))
	default:
		g.request = fmt.Appendf(nil, `{"model":"%d","stream":%v,"messages":[{"role":"user","content":"Say a lot."}]}`, size, kind == streamedBody)
	}
	g.server, err = serve(cmd, func(line string) (string, error) {
		var said struct{ Gateway, Admin string }
		err := json.Unmarshal([]byte(line), &said)
		g.admin = said.Admin
		return strings.TrimPrefix(said.Gateway, "http://"), err
	})
	return g, err
}

// perByte sends n requests and returns what a byte took, in nanoseconds.
func (g *bodyGateway) perByte(n int) (float64, error) {
	before, err := g.allocations()
	if err != nil {
		return 0, err
	}
	began := time.Now()
	for range n {
		if err := g.exchange(); err != nil {
			return 0, err
		}
	}
	took := time.Since(began)
	after, err := g.allocations()
	g.allocated.add((after - before) / float64(n) / 1000)
	return float64(took.Nanoseconds()) / float64(n*g.size), err
}

// exchange sends one request and reads all of the answer.
func (g *bodyGateway) exchange() error {
	response, err := http.Post("http://"+g.address+"/v1/chat/completions", "application/json", bytes.NewReader(g.request))
	if err != nil {
		return err
	}
	defer response.Body.Close()
	n, err := io.Copy(io.Discard, response.Body)
	if err != nil {
		return err
	}
	if want := int64(g.size); response.StatusCode != http.StatusOK || g.kind != sentBody && n < want {
		return fmt.Errorf("answered %s, and %d bytes", response.Status, n)
	}
	return nil
}

// allocations is how many bytes the gateway has allocated so far, by its metrics.
func (g *bodyGateway) allocations() (float64, error) {
	response, err := http.Get(g.admin + "/metrics")
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if value, ok := strings.CutPrefix(line, "go_memstats_alloc_bytes_total "); ok {
			return strconv.ParseFloat(strings.TrimSpace(value), 64)
		}
	}
	return 0, fmt.Errorf("no go_memstats_alloc_bytes_total in its metrics")
}
