//go:build unix

package redisstore

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/Shopify/toxiproxy/v2"
	"github.com/rs/zerolog"
)

// proxy stands between a store and its server, and does what networks do.
type proxy struct {
	testing.TB
	proxy *toxiproxy.Proxy
}

func startProxy(t testing.TB, target string) *proxy {
	t.Helper()
	server := toxiproxy.NewServer(toxiproxy.NewMetricsContainer(nil), zerolog.Nop())
	p := &proxy{t, toxiproxy.NewProxy(server, t.Name(), "127.0.0.1:0", target)}
	if err := p.proxy.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.proxy.Stop)
	return p
}

func (p *proxy) url() string { return "redis://" + p.proxy.Listen + "/0" }

// slow delays every answer.
func (p *proxy) slow(by time.Duration) {
	p.add("latency", "downstream", "latency", by.Milliseconds())
}

// cutRequests and cutAnswers let nothing pass, and keep the connections.
func (p *proxy) cutRequests() { p.add("timeout", "upstream", "timeout", 0) }
func (p *proxy) cutAnswers()  { p.add("timeout", "downstream", "timeout", 0) }

// breakAfter ends every connection after so many bytes of answers, those that
// there are after as many more: in the middle of an answer if need be.
func (p *proxy) breakAfter(bytes int64) { p.add("limit_data", "downstream", "bytes", bytes) }

func (p *proxy) add(kind, direction, attribute string, value int64) {
	p.Helper()
	toxic := fmt.Sprintf(`{"type": %q, "stream": %q, "attributes": {%q: %d}}`, kind, direction, attribute, value)
	if _, err := p.proxy.Toxics.AddToxicJson(strings.NewReader(toxic)); err != nil {
		p.Fatal(err)
	}
}

// mend ends all that was done; connections that were cut are closed.
func (p *proxy) mend() { p.proxy.Toxics.ResetToxics(context.Background()) }

// lead closes every connection and leads new ones to another server.
func (p *proxy) lead(target string) {
	p.Helper()
	if err := p.proxy.Update(&toxiproxy.Proxy{Listen: p.proxy.Listen, Upstream: target, Enabled: true}); err != nil {
		p.Fatal(err)
	}
}
