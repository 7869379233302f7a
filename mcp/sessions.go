package mcp

import "sync"

// maxSessions bounds the sessions that are remembered; their ids come from
// callers.
const maxSessions = 1024

// sessions holds what is under way in each session of a server.
type sessions struct {
	mu    sync.Mutex
	byID  map[string]*table
	order []string // the oldest first
}

func newSessions() *sessions { return &sessions{byID: map[string]*table{}} }

// table returns a session's, making it if need be.
func (s *sessions) table(id string) *table {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.byID[id]
	if t == nil {
		if len(s.order) >= maxSessions {
			oldest := s.order[0]
			s.order = s.order[1:]
			s.forget(oldest)
		}
		t = newTable()
		s.byID[id] = t
		s.order = append(s.order, id)
	}
	return t
}

// end forgets a session.
func (s *sessions) end(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, known := range s.order {
		if known == id {
			s.order = append(s.order[:i], s.order[i+1:]...)
			s.forget(id)
			return
		}
	}
}

// forget gives up the session's calls. The caller holds the lock.
func (s *sessions) forget(id string) {
	t := s.byID[id]
	delete(s.byID, id)
	for _, r := range t.drain() {
		r.finish(undecided("its session is over"))
	}
}
