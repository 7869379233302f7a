package mcp

import (
	"encoding/json"
	"sync"
	"time"
)

// table holds what is under way between one client and one server: the client's
// requests by id, and which of the server's own wait for the person. It is safe
// for concurrent use.
type table struct {
	mu       sync.Mutex
	requests map[string]*request
	settled  recent          // requests that the guard answered itself: the server's answer is swallowed
	asked    map[string]bool // ids of the server's requests that wait for the person
}

// request is a request of the client that the server has not answered.
type request struct {
	id      json.RawMessage
	call    *call         // nil: no tool call
	limit   time.Duration // until expired is called; 0 = none
	expired func()
	clock   *clock // nil without a limit
	kept    bool   // see table.keep
	claimed bool   // see table.claim

	// reply takes the answer to a request of the guard's own, nil if none
	// comes. The client does not see it.
	reply func(*message)
}

func newTable() *table {
	return &table{requests: map[string]*request{}, asked: map[string]bool{}}
}

// add notes a request that is about to be sent. A client that uses an id twice
// at a time gives up the first.
func (t *table) add(r *request) {
	key := idKey(r.id)
	t.mu.Lock()
	old := t.requests[key]
	t.requests[key] = r
	t.settled.drop(key)
	if r.clock = newClock(r.limit, r.expired); len(t.asked) > 0 {
		r.clock.pause()
	}
	t.mu.Unlock()
	if old != nil {
		old.finish(undecided("its id was used again"))
	}
}

// take removes the request of that id, nil if there is none.
func (t *table) take(id json.RawMessage) *request {
	key := idKey(id)
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.requests[key]
	delete(t.requests, key)
	return r
}

// claim removes a request that the guard answers itself, and reports false if
// somebody else has removed it. The server's own answer will be swallowed.
func (t *table) claim(r *request) bool {
	key := idKey(r.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests[key] != r {
		return false
	}
	delete(t.requests, key)
	t.settled.add(key)
	r.claimed = true
	return true
}

// isClaimed reports whether the guard answers a request itself.
func (t *table) isClaimed(r *request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.claimed
}

// remove removes a request that is no longer waited for.
func (t *table) remove(r *request) bool {
	key := idKey(r.id)
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.requests[key] != r {
		return false
	}
	delete(t.requests, key)
	return true
}

// keep lets a request wait for an answer from elsewhere for some time more.
func (t *table) keep(r *request, d time.Duration) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if r.kept || t.requests[idKey(r.id)] != r {
		return
	}
	r.kept = true
	time.AfterFunc(d, func() {
		if t.remove(r) {
			r.finish(undecided("no answer came"))
		}
	})
}

// isKept reports whether a request waits for an answer from elsewhere.
func (t *table) isKept(r *request) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return r.kept
}

// drain removes all requests and returns them. The answers of whoever was
// asked will not come.
func (t *table) drain() []*request {
	t.mu.Lock()
	defer t.mu.Unlock()
	var all []*request
	for _, r := range t.requests {
		all = append(all, r)
	}
	clear(t.requests)
	clear(t.asked)
	return all
}

// idle reports whether nothing is under way.
func (t *table) idle() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.requests) == 0
}

// concerned reports whether messages of the server matter: there is a request
// that one may answer, or an answer to swallow.
func (t *table) concerned() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.requests)+len(t.asked)+t.settled.len() > 0
}

// fromServer takes in a message of the server, and reports whether it is to be
// passed on, and the request that it answers.
func (t *table) fromServer(m *message) (pass bool, answered *request) {
	switch {
	case m.isAnswer():
		key := idKey(m.id)
		t.mu.Lock()
		r := t.requests[key]
		delete(t.requests, key)
		swallow := r == nil && t.settled.drop(key)
		t.mu.Unlock()
		switch {
		case r == nil:
			return !swallow, nil
		case r.reply != nil:
			r.reply(m)
			return false, r
		case r.call != nil:
			r.finish(judge(m))
		}
		return true, r
	case m.isRequest() && (m.is(methodElicit) || m.is(methodSample)):
		t.ask(m.id)
	case m.method != nil && m.is(methodCancelled):
		id, _ := judgeCancel(m.params)
		t.told(id)
	}
	return true, nil
}

// fromClient takes in a notification or an answer of the client, and reports
// whether it is to be passed on.
func (t *table) fromClient(m *message) (pass bool) {
	switch {
	case m.isAnswer():
		t.told(m.id)
	case m.method != nil && m.is(methodCancelled):
		id, v := judgeCancel(m.params)
		if r := t.take(id); r != nil {
			r.finish(v)
			return true
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		return !t.settled.has(idKey(id)) // the server has been told already
	}
	return true
}

// maxAsked bounds the questions to the person that are remembered.
const maxAsked = 1000

// ask stops all clocks: the server waits for the person, and nothing says for
// which of its calls.
func (t *table) ask(id json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.asked) >= maxAsked {
		return
	}
	t.asked[idKey(id)] = true
	if len(t.asked) == 1 {
		for _, r := range t.requests {
			r.clock.pause()
		}
	}
}

// told notes that the person has answered.
func (t *table) told(id json.RawMessage) {
	t.mu.Lock()
	defer t.mu.Unlock()
	key := idKey(id)
	if !t.asked[key] {
		return
	}
	delete(t.asked, key)
	if len(t.asked) == 0 {
		for _, r := range t.requests {
			r.clock.resume()
		}
	}
}

// finish reports what the request came to.
func (r *request) finish(v verdict) {
	r.clock.stop()
	if r.call != nil {
		r.call.done(v)
	}
}

// failed is the answer to a tool call that the server did not answer.
func (r *request) failed(v verdict) []byte {
	return failedAnswer(r.id, failureWords(r.call.tool, v.tool), v.tool)
}

// maxRecent bounds the answers that are waited for in order to swallow them.
const maxRecent = 1024

// recent is a set of ids that forgets the oldest.
type recent struct {
	keys  map[string]bool
	order []string
}

func (s *recent) add(key string) {
	if s.keys == nil {
		s.keys = map[string]bool{}
	}
	if s.keys[key] {
		return
	}
	if len(s.order) >= maxRecent {
		delete(s.keys, s.order[0])
		s.order = s.order[1:]
	}
	s.keys[key] = true
	s.order = append(s.order, key)
}

func (s *recent) has(key string) bool { return s.keys[key] }

// drop removes key and reports whether it was there.
func (s *recent) drop(key string) bool {
	if !s.keys[key] {
		return false
	}
	delete(s.keys, key)
	for i, k := range s.order {
		if k == key {
			s.order = append(s.order[:i], s.order[i+1:]...)
			break
		}
	}
	return true
}

func (s *recent) len() int { return len(s.keys) }
