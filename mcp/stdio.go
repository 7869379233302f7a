package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/fusebox-go/fusebox"
)

// Stdio is a client and a server that speak over standard input and output.
type Stdio struct {
	Command []string         // of the server
	In      io.Reader        // from the client
	Out     io.Writer        // to the client
	Err     io.Writer        // the server's standard error
	Signals <-chan os.Signal // each ends the server, which gets it first; may be nil
}

// Stdio runs a server and stands between it and its client until one of them
// is gone, and the server with all that it started has ended. The code is the
// server's, 0 if the guard had to end it. A server that dies is started anew
// when it is next needed; one that dies before it has answered anything ends
// the guard, as the client would see it without one. The error says that the
// server cannot be started.
func (g *Guard) Stdio(c Stdio) (code int, err error) {
	s := &stdio{g: g, Stdio: c, out: output{w: c.Out}, table: newTable(),
		over: make(chan struct{}), quiet: make(chan struct{}, 1)}
	if err := s.start(); err != nil {
		s.crashed(err)
		return 1, err
	}
	gone := make(chan struct{})
	go func() {
		s.readClient()
		close(gone)
	}()
	select {
	case <-gone:
		return s.end(nil), nil
	case sig := <-c.Signals:
		return s.end(sig), nil
	case <-s.over:
		return s.end(terminateSignal), nil
	}
}

// stdio is the guard of one client over standard input and output. Two
// goroutines carry the messages, one a direction; the one that reads the client
// also starts the server anew.
type stdio struct {
	g *Guard
	Stdio
	out   output
	table *table
	over  chan struct{} // closed when there is nothing left to do
	quiet chan struct{} // told when nothing is under way any more, near the end
	once  sync.Once     // closes over

	// What the client said first: said again to a new server.
	hello, ready []byte // initialize and notifications/initialized, as they came
	helloID      []byte

	mu       sync.Mutex
	server   *process // the last one
	dead     bool     // it is
	answered bool     // a server has answered something
	ending   bool     // the client is gone, or we were told to end
	reviving bool     // the server is just being started anew
	began    time.Time
	fails    int // lives in a row that answered nothing
}

func (s *stdio) finish() { s.once.Do(func() { close(s.over) }) }

// start begins a life of the server.
func (s *stdio) start() error {
	p, err := startProcess(s.Command, s.Err)
	if err != nil {
		return err
	}
	s.mu.Lock()
	ending := s.ending
	if !ending {
		s.server, s.dead, s.began = p, false, time.Now()
		s.fails++
	}
	s.mu.Unlock()
	if ending {
		p.stdin.Close()
		p.stdout.Close()
		p.kill()
		return errors.New("the guard is ending")
	}
	go s.readServer(p)
	return nil
}

// readClient carries the client's messages to the server until they end.
func (s *stdio) readClient() {
	in := newLines(s.In)
	for {
		line, err := in.next()
		if err != nil {
			return
		}
		s.fromClient(line)
	}
}

func (s *stdio) fromClient(line []byte) {
	m, ok := readMessage(line)
	switch {
	case !ok:
		s.pass(line)
	case m.isRequest():
		s.request(&m, line)
	default:
		if m.method != nil && m.is(methodInitialized) {
			s.ready = bytes.Clone(line)
		}
		if s.table.fromClient(&m) {
			s.pass(line)
		}
	}
}

// pass sends what wants no answer. If the server is dead, so is whom it was for.
func (s *stdio) pass(line []byte) {
	s.mu.Lock()
	p := s.server
	s.mu.Unlock()
	if err := p.write(line); err != nil {
		s.g.log.Debug("not sent", "error", err)
	}
}

// request decides a request, and sends it.
func (s *stdio) request(m *message, line []byte) {
	r := &request{id: bytes.Clone(m.id)}
	if m.is(methodInitialize) {
		s.hello, s.helloID = bytes.Clone(line), r.id
	}
	if m.is(methodCall) {
		if c, ok := readCall(m); ok {
			var denial *fusebox.Denial
			if r.call, denial = s.g.admit(c, origin{}); denial != nil {
				s.say(deniedAnswer(r.id, denial))
				return
			}
			r.limit, r.expired = s.g.deadline(c.tool), func() { s.expire(r) }
		}
	}
	s.send(r, line)
}

// send sends a request to the server. One that dies just then has not read it,
// so that it can be sent to the next.
func (s *stdio) send(r *request, line []byte) {
	for again := false; ; again = true {
		p, err := s.register(r)
		if err != nil {
			s.refuse(r, err)
			return
		}
		if err = p.write(line); err == nil || !s.table.remove(r) {
			return
		}
		if again || !p.ends() {
			s.refuse(r, fmt.Errorf("the server reads nothing: %w", err))
			return
		}
		r.clock.stop()
	}
}

// register notes a request and returns the server to send it to, which is
// started anew if need be.
func (s *stdio) register(r *request) (*process, error) {
	if p := s.addTo(r); p != nil {
		return p, nil
	}
	if err := s.revive(r); err != nil {
		return nil, err
	}
	if p := s.addTo(r); p != nil {
		return p, nil
	}
	return nil, errors.New("the server ended as soon as it was started anew")
}

// addTo notes a request for the present server, and returns that; nil if it is
// dead.
func (s *stdio) addTo(r *request) *process {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.dead {
		return nil
	}
	s.table.add(r)
	return s.server
}

// refuse answers a request that no server is there for.
func (s *stdio) refuse(r *request, err error) {
	if d := fusebox.AsDenial(err); d != nil {
		s.say(errorAnswer(r.id, d.Instruction()))
		return
	}
	s.fail(r, broken(fusebox.ClassCrash, err))
}

// fail answers a request in the server's place.
func (s *stdio) fail(r *request, v verdict) {
	r.finish(v)
	switch {
	case r.reply != nil:
		r.reply(nil)
	case r.call != nil:
		s.say(r.failed(v))
	default:
		s.say(errorAnswer(r.id, fusebox.ErrorText(v.tool.Err)))
	}
}

// expire answers a call that has run for too long.
func (s *stdio) expire(r *request) {
	if !s.table.claim(r) {
		return
	}
	v := overdue(r.limit)
	s.fail(r, v)
	s.pass(cancelNotice(r.id, fusebox.ErrorText(v.tool.Err)))
}

// say writes an answer of the guard's own.
func (s *stdio) say(line []byte) {
	if s.out.say(line) != nil {
		s.finish()
	}
}

// readServer carries a server's messages to the client until it has ended.
func (s *stdio) readServer(p *process) {
	go func() {
		<-p.exited
		time.AfterFunc(leftover, func() { p.stdout.Close() }) // what it started may hold the pipe
	}()
	out := newLines(p.stdout)
	for {
		line, err := out.next()
		if err != nil {
			break
		}
		if s.fromServer(line) && s.out.pass(line) != nil {
			s.finish()
		}
	}
	select {
	case <-p.exited:
	case <-time.After(leftover):
	}
	if p.lives() { // and will never answer again
		p.terminate(terminateSignal)
	} else {
		p.kill() // what it left behind
	}
	s.buried(p)
}

// fromServer takes in a line of the server, and reports whether the client is to
// see it.
func (s *stdio) fromServer(line []byte) bool {
	if !s.table.concerned() && !bytes.Contains(line, []byte(`"method"`)) {
		return true
	}
	m, ok := readMessage(line)
	if !ok {
		return true
	}
	pass, r := s.table.fromServer(&m)
	if r == nil {
		return pass
	}
	s.mu.Lock()
	if r.reply == nil {
		s.answered, s.fails = true, 0
	}
	ending := s.ending
	s.mu.Unlock()
	if ending && s.table.idle() {
		select {
		case s.quiet <- struct{}{}:
		default:
		}
	}
	return pass
}

// buried takes in that a server has ended: what it owed is answered.
func (s *stdio) buried(p *process) {
	s.mu.Lock()
	s.dead = true
	left := s.table.drain()
	ending, reviving, first := s.ending, s.reviving, !s.answered
	s.mu.Unlock()

	err := fmt.Errorf("the server ended: %s", p.ending())
	v := broken(fusebox.ClassCrash, err)
	if ending {
		v = undecided("the client left, and the server ended: " + p.ending())
	}
	calls := 0
	for _, r := range left {
		if r.call != nil {
			calls++
		}
		s.fail(r, v)
	}
	if !ending {
		s.g.log.Info("the server ended", "how", p.ending(), "unanswered", len(left))
		if calls == 0 && !reviving {
			s.crashed(err)
		}
	}
	close(p.buried)
	if first && !reviving {
		s.finish()
	}
}

// crashed records a death that took no call with it.
func (s *stdio) crashed(err error) {
	if p, denied := s.g.circuit.Allow(context.Background()); denied == nil {
		p.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassCrash, Err: err})
	}
}

// end ends the server, in the way of sig or, if that is nil, as the end of its
// input asks it to, and returns the exit code.
func (s *stdio) end(sig os.Signal) int {
	s.mu.Lock()
	s.ending = true
	p := s.server
	wasDead := s.dead
	s.mu.Unlock()
	p.stdin.Close()
	code := 0
	if sig == nil && s.waitForEnd(p) || wasDead || !p.lives() {
		code = p.code()
	} else {
		if sig == nil {
			sig = terminateSignal
		}
		p.terminate(sig)
	}
	select {
	case <-p.buried:
	case <-time.After(patience): // the client does not read
	}
	return code
}

// waitForEnd waits for a server whose input has ended, and reports whether it
// ended by itself.
func (s *stdio) waitForEnd(p *process) bool {
	limit := time.After(drain)
	if s.table.idle() {
		limit = time.After(patience)
	}
	for {
		select {
		case <-p.exited:
			return true
		case <-s.quiet:
			limit = time.After(patience)
		case <-limit:
			return false
		case <-s.Signals:
			return false
		case <-s.over:
			return false
		}
	}
}

// Between two starts of a server that dies before it answers anything.
const (
	shortestRest = 100 * time.Millisecond
	longestRest  = 5 * time.Second
)

// revive starts the server anew: under its circuit, and not at once if it keeps
// dying. A client that has said hello is not told; what it said is said again.
func (s *stdio) revive(r *request) error {
	permit := fusebox.Permit{}
	if r.call == nil { // else the call was admitted
		var err error
		if permit, err = s.g.circuit.Allow(context.Background()); err != nil {
			return err
		}
	}
	s.mu.Lock()
	s.reviving = true
	s.mu.Unlock()
	s.rest()
	err := s.start()
	if err == nil {
		if err = s.greet(); err != nil {
			s.server.terminate(terminateSignal)
			<-s.server.buried
		}
	}
	s.mu.Lock()
	s.reviving = false
	s.mu.Unlock()
	if err != nil {
		err = fmt.Errorf("the server cannot be started anew: %w", err)
		permit.Done(fusebox.Result{Outcome: fusebox.Failure, Class: fusebox.ClassCrash, Err: err})
		return err
	}
	s.g.log.Info("the server was started anew")
	permit.Done(fusebox.Result{Outcome: fusebox.Canceled}) // its answers are the evidence
	return nil
}

// rest waits before the next start.
func (s *stdio) rest() {
	s.mu.Lock()
	pause := time.Duration(0)
	if s.fails > 0 {
		pause = min(shortestRest<<min(s.fails, 10), longestRest) - time.Since(s.began)
	}
	s.mu.Unlock()
	select {
	case <-time.After(pause):
	case <-s.over:
	}
}

// greetTime is how long a new server may take to answer initialize.
const greetTime = 30 * time.Second

var (
	errSilent = errors.New("it does not answer initialize")
	errEnded  = errors.New("it ended at once")
)

// greet says again what the client said first. Nobody else sends meanwhile.
func (s *stdio) greet() error {
	if s.hello == nil {
		return nil
	}
	reply := make(chan *message, 1)
	r := &request{id: s.helloID, reply: func(m *message) {
		if m != nil {
			m = &message{err: bytes.Clone(m.err)}
		}
		reply <- m
	}}
	p := s.addTo(r)
	if p == nil {
		return errEnded
	}
	p.write(s.hello) // if it fails the server is dead, and that answers
	select {
	case m := <-reply:
		switch {
		case m == nil:
			return errEnded
		case m.err != nil:
			return judgeError(m.err).Err
		}
	case <-time.After(greetTime):
		s.table.remove(r)
		return errSilent
	}
	if s.ready == nil {
		return nil
	}
	return p.write(s.ready)
}
