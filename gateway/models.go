package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// listTime is how long a backend may take to list its models.
const listTime = 5 * time.Second

// maxList bounds the list of one backend, in bytes.
const maxList = 4 << 20

// listing is what one backend says of its models.
type listing struct {
	data    []byte // the array
	err     error
	outcome fusebox.Outcome // of asking
}

// listModels answers with the union of the lists of all backends of the
// dialect, in the order of the configuration. Those that cannot be asked, or
// do not answer, are left out and named in a header.
func (c *call) listModels() {
	var asked []*backend
	for _, b := range c.g.backends {
		if b.Dialect == c.endpoint.dialect {
			asked = append(asked, b)
		}
	}
	if len(asked) == 0 {
		c.refuse(c.noRoute())
		return
	}
	c.attempts = len(asked)
	lists := make([]listing, len(asked))
	var all sync.WaitGroup
	for i, b := range asked {
		all.Go(func() { lists[i] = c.list(b) })
	}
	all.Wait()
	if c.r.Context().Err() != nil {
		c.refuse(c.over())
		return
	}
	union, missing, reasons := merge(asked, lists)
	if len(missing) == len(asked) {
		c.refuse(&refusal{status: http.StatusServiceUnavailable, code: "no_backend", final: true,
			message: "No backend can list its models. " + strings.Join(reasons, ". ") + "."})
		return
	}
	h := c.w.Header()
	h.Set("Content-Type", "application/json")
	c.status, c.outcome = http.StatusOK, outcomeOK
	if len(missing) > 0 {
		c.outcome = outcomeDegraded
		h.Set(headerMissing, strings.Join(missing, ", "))
	}
	h.Set(headerOutcome, c.outcome)
	c.w.Write(union)
}

// merge joins the lists, each model once.
func merge(backends []*backend, lists []listing) (union []byte, missing, reasons []string) {
	seen := map[string]bool{}
	union = []byte(`{"object":"list","data":[`)
	first, last := "", ""
	for i, l := range lists {
		if l.err != nil {
			missing = append(missing, backends[i].Name)
			reasons = append(reasons, backends[i].Name+": "+strings.TrimRight(fusebox.ErrorText(l.err), "."))
			continue
		}
		for e := (elements{members{b: l.data}}); ; {
			model, ok := e.next()
			if !ok {
				break
			}
			id := string(plain(member(model, "id")))
			if id == "" || seen[id] {
				continue
			}
			if len(seen) > 0 {
				union = append(union, ',')
			} else {
				first = id
			}
			seen[id], last = true, id
			union = append(union, model...)
		}
	}
	union = append(union, fmt.Sprintf(`],"has_more":false,"first_id":%s,"last_id":%s}`, idOrNull(first), idOrNull(last))...)
	return union, missing, reasons
}

func idOrNull(id string) []byte {
	if id == "" {
		return []byte("null")
	}
	return marshal(id)
}

// list asks one backend for its models, under its circuits.
func (c *call) list(b *backend) listing {
	circuit, err := b.circuit("")
	if err != nil {
		return listing{err: err}
	}
	p, err := b.admit(c.r.Context(), circuit)
	if err != nil {
		return listing{err: err}
	}
	a := attempt{call: c, backend: b, started: time.Now()}
	data, err := a.fetchList()
	p.settle(&a.verdict)
	c.tell(&a, circuit.Name())
	return listing{data, err, a.verdict.result.Outcome}
}

// fetchList makes the call, and returns the array of models.
func (a *attempt) fetchList() (data []byte, err error) {
	ctx, stop := context.WithTimeoutCause(a.r.Context(), listTime, &limitError{theWhole, listTime})
	defer stop()
	a.ctx = ctx // not the call's watchdog: backends are asked side by side
	response, err := a.backend.transport.RoundTrip(a.request())
	if err != nil {
		a.brokeOff(err, false)
		return nil, a.verdict.result.Err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxList))
	switch {
	case err != nil:
		a.brokeOff(err, true)
	case response.StatusCode != http.StatusOK:
		a.judge(response.StatusCode, response.Header, body)
	default:
		if data = member(body, "data"); len(data) > 0 && data[0] == '[' {
			return data, nil
		}
		a.verdict = failure(fusebox.ClassServer, response.StatusCode, errors.New("the answer is no list of models"))
	}
	return nil, a.verdict.result.Err
}
