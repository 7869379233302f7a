package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
)

// front is what stands before the upstream, and what was measured of it.
type front struct {
	name string
	*server
	perSecond spread
	microsCPU spread // per request, of the front alone
	broken    int    // answers
	first     spread // milliseconds to a stream's first byte
	whole     spread // milliseconds to an answer's end
}

const gatewayName = "fusebox up"

const (
	saturated  = 64                     // connections
	lapOfLoad  = 700 * time.Millisecond // under saturation, a round
	pacedRate  = 200                    // requests a second
	pacedCalls = 150                    // a round
)

// gateway measures the gateway beside forwarders.
func (f *findings) gateway(out io.Writer) (err error) {
	dir, err := os.MkdirTemp("", "fusebox-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	up, err := serve(startChild("upstream"), asIs)
	if err != nil {
		return err
	}
	defer up.stop()
	fronts, missing, err := startFronts(dir, up)
	defer func() {
		for _, x := range fronts {
			if x.server != up {
				x.stop()
			}
		}
	}()
	if err != nil {
		return err
	}
	for _, x := range fronts { // warm connections and heaps
		if _, err := saturate(x.address, chat, saturated, lapOfLoad/2); err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
	}
	var failed error
	var laps []func()
	for _, x := range fronts {
		laps = append(laps, func() { failed = errors.Join(failed, x.lap()) })
	}
	interleave(max(f.rounds/2, 3), laps)
	if failed != nil {
		return failed
	}
	f.fronts = fronts
	printFronts(out, fronts, missing)
	return nil
}

// lap measures the front once in each way.
func (x *front) lap() error {
	before := x.used()
	full, err := saturate(x.address, chat, saturated, lapOfLoad)
	if err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	x.perSecond.add(float64(full.answered) / full.elapsed.Seconds())
	x.microsCPU.add(float64((x.used() - before).Microseconds()) / float64(full.answered))
	whole, err := paced(x.address, chat, 32, pacedCalls, pacedRate)
	if err != nil {
		return fmt.Errorf("%s: %w", x.name, err)
	}
	streamed, err := paced(x.address, chatStreamed, 32, pacedCalls/2, pacedRate/2)
	if err != nil {
		return fmt.Errorf("%s, streaming: %w", x.name, err)
	}
	x.whole = append(x.whole, whole.whole...)
	x.first = append(x.first, streamed.first...)
	x.broken += full.broken + whole.broken + streamed.broken
	return nil
}

// startFronts starts all fronts. The first is the upstream itself, the second
// the bare forwarder.
func startFronts(dir string, up *server) (fronts []*front, missing string, err error) {
	fronts = []*front{{name: "none: the upstream itself", server: up}}
	start := func(name string, cmd *exec.Cmd, address func(string) (string, error)) {
		if err != nil {
			return
		}
		var s *server
		if s, err = serve(cmd, address); err == nil {
			fronts = append(fronts, &front{name: name, server: s})
		}
	}
	start("bare Go forwarder", startChild("bare", up.address), asIs)
	start("httputil.ReverseProxy", startChild("reverse", up.address), asIs)
	gateway, buildErr := fuseboxUp(dir, up.address)
	if err = cmp.Or(err, buildErr); err != nil {
		return fronts, "", err
	}
	start(gatewayName, gateway, ofGateway)
	if _, lookErr := exec.LookPath("nginx"); lookErr != nil {
		return fronts, "nginx is not installed here and was left out.", err
	}
	x, nginxErr := startNginx(dir, up.address)
	if err = cmp.Or(err, nginxErr); err != nil {
		return fronts, "", err
	}
	return append(fronts, x), "", nil
}

// buildFusebox builds the program that people run, in dir.
func buildFusebox(dir string) (binary string, err error) {
	binary = filepath.Join(dir, "fusebox")
	build := exec.Command("go", "build", "-o", binary, "./cmd/fusebox")
	build.Dir = ".."
	if said, err := build.CombinedOutput(); err != nil {
		return "", fmt.Errorf("building fusebox: %w\n%s", err, said)
	}
	return binary, nil
}

// fuseboxUp builds the gateway in dir and prepares it.
func fuseboxUp(dir, upstream string) (*exec.Cmd, error) {
	binary, err := buildFusebox(dir)
	if err != nil {
		return nil, err
	}
	return gatewayOf(binary, dir, upstream)
}

// gatewayOf prepares a gateway that keeps its evidence in dir.
func gatewayOf(binary, dir, upstream string) (*exec.Cmd, error) {
	config := filepath.Join(dir, "fusebox.yaml")
	text := fmt.Sprintf("store: file://%s/state\nbackends:\n  up: {url: \"http://%s/v1\", dialect: openai}\n", dir, upstream)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		return nil, err
	}
	return exec.Command(binary, "up", "--config", config, "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0", "--json"), nil
}

const nginxConfig = `daemon off;
worker_processes %d;
error_log stderr crit;
pid %[2]s/nginx.pid;
events {}
http {
  access_log off;
  client_body_temp_path %[2]s/body;
  proxy_temp_path %[2]s/proxy;
  fastcgi_temp_path %[2]s/fastcgi;
  uwsgi_temp_path %[2]s/uwsgi;
  scgi_temp_path %[2]s/scgi;
  keepalive_requests 1000000;
  upstream up { server %[3]s; keepalive 128; keepalive_requests 1000000; }
  server {
    listen %[4]s;
    location / {
      proxy_pass http://up;
      proxy_http_version 1.1;
      proxy_set_header Connection "";
      proxy_buffering off;
    }
  }
}
`

func startNginx(dir, upstream string) (*front, error) {
	home := filepath.Join(dir, "nginx")
	for _, d := range []string{dir, home} { // its workers may be another user's
		if err := errors.Join(os.MkdirAll(d, 0o755), os.Chmod(d, 0o755)); err != nil {
			return nil, err
		}
	}
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	config := filepath.Join(home, "nginx.conf")
	if err := os.WriteFile(config, fmt.Appendf(nil, nginxConfig, runtime.NumCPU(), home, upstream, address), 0o644); err != nil {
		return nil, err
	}
	cmd := exec.Command("nginx", "-p", home, "-c", config)
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	x := &front{name: "nginx", server: &server{cmd, address}}
	deadline := time.Now().Add(5 * time.Second)
	for {
		c, err := dial(address, chat)
		if err == nil {
			c.conn.Close()
			return x, nil
		}
		if time.Now().After(deadline) {
			x.stop()
			return nil, fmt.Errorf("nginx does not answer: %w", err)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// freeAddress is for servers that cannot choose a port themselves.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	defer l.Close()
	return l.Addr().String(), nil
}

func printFronts(out io.Writer, fronts []*front, missing string) {
	fmt.Fprintf(out, "## Gateway\n\nThe upstream answers a chat completion of 1.3 kB at once. Requests per second with %d connections; CPU time of the front alone per request; milliseconds added at %d requests a second, from when each was due, and to the first byte of a stream at %d a second; peak memory; answers that broke. Upstream, fronts and load share the cores.\n\n",
		saturated, pacedRate, pacedRate/2)
	if missing != "" {
		fmt.Fprintf(out, "%s\n\n", missing)
	}
	t := newTable("front", "requests/s", "middle half", "of bare", "CPU µs", "p50 ms", "added", "p99 ms", "added", "first byte p50 ms", "added", "MB", "broken")
	direct, bare := fronts[0], fronts[1]
	for _, x := range fronts {
		cpu := "–"
		if x != direct {
			cpu = short(x.microsCPU.median())
		}
		t.row(x.name, short(x.perSecond.median()), x.perSecond.middle(), short(x.perSecond.median()/bare.perSecond.median()), cpu,
			short(x.whole.median()), short(x.whole.median()-direct.whole.median()), short(x.whole.at(0.99)), short(x.whole.at(0.99)-direct.whole.at(0.99)),
			short(x.first.median()), short(x.first.median()-direct.first.median()), short(float64(x.peak())/1e6), strconv.Itoa(x.broken))
	}
	t.print(out)
}
