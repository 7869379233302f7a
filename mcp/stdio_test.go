//go:build unix

package mcp_test

import (
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/fusebox-go/fusebox"
	"github.com/fusebox-go/fusebox/mcp"
)

// TestBytesPassUnchanged sends what peers were seen to trip over, through the
// guard to a server that says what it hears, and back.
func TestBytesPassUnchanged(t *testing.T) {
	lines := []string{
		`{"jsonrpc":"2.0","id":0,"method":"initialize","params":{}}`,
		`{ "jsonrpc" : "2.0" , "method":"notifications/initialized" }  `,
		`{"id":"","jsonrpc":"2.0","method":"ping"}`,
		`{"jsonrpc":"2.0","id":null,"method":"ping"}`,
		`{"jsonrpc":"2.0","id":9007199254740993,"method":"resources/read","params":{"n":1.0,"e":1E+2,"z":-0.0}}`,
		`{"jsonrpc":"2.0","id":1.5,"method":"ping","extra":{"unknown":[null,true]}}`,
		`{"jsonrpc":"2.0","id":"\u0061\ud83d\ude00","method":"ping"}`,
		`[{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"x"}},{"jsonrpc":"2.0","method":"y"}]`,
		`[]`, `{}`, `null`, `""`, `12`, ``, `   `, "\t",
		`Server listening on stdio`,
		`tools/call is what I log`,
		`{"jsonrpc":"2.0","id":6,"method":"tools/call","params":`,
		`{"jsonrpc":"2.0","id":7,"method":"tools/call"}`,
		`{"jsonrpc":"2.0","id":8,"method":"tools/call","params":["x"]}`,
		`{"jsonrpc":"2.0","id":null,"method":"tools/call","params":{"name":"x"}}`,
		`{"jsonrpc":"2.0","id":10,"method":"tools\/call","params":{"name":"x","arguments":{"a":"\/"}}}`,
		`{"jsonrpc":"2.0","id":11,"method":"tools/call","params":{"name":"x","arguments":null,"_meta":{"progressToken":0}}}`,
		`{"jsonrpc":"2.0","id":12,"method":"elicitation/create","params":{}}`,
		`{"jsonrpc":"2.0","id":12,"result":{"action":"accept"}}`,
		`{"jsonrpc":"2.0","id":13,"error":{"code":-32601,"message":"no"}}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"unknown"}}`,
		`{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":0.5}}`,
		`{"jsonrpc":"2.0","id":14,"method":"tasks/get","params":{"taskId":"t"}}`,
		"{\"jsonrpc\":\"2.0\",\"id\":15,\"method\":\"ping\",\"text\":\"\u2028 <&>\"}\r",
		"{\"jsonrpc\":\"2.0\",\"id\":16,\"method\":\"ping\",\"text\":\"\xff\xfe\"}",
		`{"jsonrpc":"2.0","id":17,"method":"ping","deep":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`,
		`{"jsonrpc":"2.0","id":18,"method":"ping","long":"` + strings.Repeat("x", 20<<20) + `"}`,
	}
	k := talkTo(t, options{}, party("mirror")...)
	for _, line := range lines {
		k.send(line)
		if got := k.next(); got != line+"\n" {
			t.Errorf("sent %.200q, got back %.200q", line, got)
		}
	}
	if _, err := k.in.Write([]byte("no end of line")); err != nil {
		t.Fatal(err)
	}
	code := k.end()
	// What was never answered is answered at the end, on lines of its own.
	if got := k.next(); strings.TrimSuffix(got, "\n") != "no end of line" || code != 0 {
		t.Errorf("have %q, code %d", got, code)
	}
}

func TestT1AFailingCallReachesTheServerThreeTimes(t *testing.T) {
	k := talkTo(t, options{init: true}, party("plain")...)
	said := map[string]bool{}
	for i := 1; i <= 20; i++ {
		k.call(i, "fail", "same")
		line := k.want(fmt.Sprintf(`"id":%d,`, i), `"isError":true`)
		if i <= 3 && !strings.Contains(line, "no such thing") {
			t.Errorf("call %d: %s", i, line)
		}
		if i > 3 && !strings.Contains(line, "io.github.fusebox-go/denied") {
			t.Errorf("call %d: %s", i, line)
		}
		said[regexp.MustCompile(`"text":"[^"]*`).FindString(line)] = true
	}
	if len(said) < 5 { // the server's, three of the denial, and the stopped run's
		t.Errorf("it says only %d things: %v", len(said), said)
	}
	k.call(21, "count", "fail")
	k.want("This run is stopped") // T3: all that it asks for
	for _, run := range k.box.Runs() {
		k.box.ResetRun(run.Run, "the plan was mended")
	}
	k.call(22, "count", "fail")
	k.want(`"text":"3"`)
	if s := k.status("tool/s/fail"); s.Phase != fusebox.Closed {
		t.Errorf("one bad plan opened the tool's circuit: %v", s.Phase)
	}
	if s := k.status("server/s"); s.Phase != fusebox.Closed || s.Failures != 0 {
		t.Errorf("an answered call proves that the server works: %+v", s)
	}
}

func TestT2APollThatSucceedsIsNeverThrash(t *testing.T) {
	k := talkTo(t, options{}, party("plain")...)
	for i := range 50 {
		k.call(i, "echo", "state?")
		k.want(`"text":"state?"`)
	}
}

func TestT6T7CallsThatDifferAreOthers(t *testing.T) {
	k := talkTo(t, options{}, party("plain")...)
	for i := range 3 {
		for j, text := range []string{"1395", "1394"} {
			k.call(10*i+j, "fail", text)
			k.want("no such thing: " + text)
		}
	}
	for j, text := range []string{"1395", "1394"} {
		k.call(100+j, "fail", text)
		k.want("io.github.fusebox-go/denied", `"reason":"thrash"`)
	}
}

func TestT8DifferentFailuresOpenTheToolsCircuitAlone(t *testing.T) {
	k := talkTo(t, options{}, party("plain")...)
	for i := range 3 {
		k.call(i, "fail", fmt.Sprint("url ", i))
		k.want("no such thing")
	}
	k.call(3, "fail", "url 3")
	k.want(`"reason":"open"`, "s/fail is unavailable")
	k.call(4, "echo", "others pass")
	k.want("others pass")
	if s := k.status("server/s"); s.Phase != fusebox.Closed {
		t.Errorf("the server's circuit is %v", s.Phase)
	}
}

func TestObserveDeniesNothing(t *testing.T) {
	k := talkTo(t, options{box: fusebox.Config{Observe: true}}, party("plain")...)
	for i := range 20 {
		k.call(i, "fail", "same")
		k.want("no such thing")
	}
}

func TestADeadlineAnswersCancelsAndSwallows(t *testing.T) {
	limit := func(tool string) time.Duration {
		if tool == "hang" {
			return 50 * time.Millisecond
		}
		return 0
	}
	k := talkTo(t, options{mcp: mcp.Config{Deadline: limit}}, party("plain")...)
	k.call(1, "hang", "")
	k.want(`"id":1,`, "hang failed: no answer within 50ms", `"isError":true`, `"class":"timeout"`)
	k.want("notifications/heard", "no answer within 50ms")
	k.call(2, "echo", "next") // the late answer to 1 does not come between
	k.want(`"id":2,`, "next")
	if s := k.status("server/s"); s.LastClass != fusebox.ClassTimeout {
		t.Errorf("the server's circuit has seen %v", s.LastClass)
	}
}

func TestAClientsCancelIsTheCallsOutcome(t *testing.T) {
	k := talkTo(t, options{}, party("plain")...)
	k.call(1, "hang", "")
	k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1,"reason":"MCP error -32001: Request timed out"}}`)
	k.want("notifications/heard", "Request timed out")
	k.want("too late") // not ours to keep: the client knows that it gave up
	if s := k.status("tool/s/hang"); s.LastClass != fusebox.ClassTimeout {
		t.Errorf("have %v", s.LastClass)
	}
}

func TestAServerThatDiesOwesNothing(t *testing.T) {
	for _, test := range []struct {
		name string
		init bool
	}{{"with sessions", true}, {"without", false}} {
		t.Run(test.name, func(t *testing.T) {
			k := talkTo(t, options{init: test.init}, party("plain")...)
			k.call(1, "echo", "there")
			k.want(`"id":1,`)
			k.call(2, "hang", "a")
			k.call(3, "hang", "b")
			k.call(4, "die", "")
			answers := k.next() + k.next() + k.next()
			for _, part := range []string{`"id":2,`, `"id":3,`, `"id":4,`, "exit status 3", `"class":"crash"`} {
				if !strings.Contains(answers, part) {
					t.Errorf("%s is not in %s", part, answers)
				}
			}
			if s := k.status("server/s"); s.Failures != 3 {
				t.Errorf("%d failures, want 3", s.Failures)
			}
			// It is started anew when it is needed, and greeted with the client's words.
			k.call(5, "hello", "s")
			greeted := "0"
			if test.init {
				greeted = "2"
			}
			k.want(`"id":5,`, `"text":"`+greeted+`"`)
			k.send(`{"jsonrpc":"2.0","id":6,"method":"tools/list"}`)
			k.want(`"id":6,`)
			if code := k.end(); code != 0 {
				t.Errorf("exit code %d", code)
			}
		})
	}
}

// TestACallThatADeadServerDidNotReadGoesToTheNext: the server has ended, but the
// guard does not know yet, because a child of it holds its output. The input it
// gives up itself, before there is a child that would hold it a moment longer.
func TestACallThatADeadServerDidNotReadGoesToTheNext(t *testing.T) {
	k := talkTo(t, options{}, "sh", "-c",
		`read line; echo "{\"id\":$(expr "$line" : '.*"id":\([0-9]*\)'),\"result\":{\"pid\":$$}}"; exec </dev/null; sleep 60 & exit 3`)
	k.call(1, "echo", "a")
	var first struct{ Result struct{ PID int } }
	if err := json.Unmarshal([]byte(k.want(`"id":1,`)), &first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end of the server", func() bool { return !runs(first.Result.PID) })
	k.call(2, "echo", "b")
	k.want(`"id":2,`, `"pid"`)
}

// TestAServerThatCannotBeStartedAnew: what needs it is answered all the same.
func TestAServerThatCannotBeStartedAnew(t *testing.T) {
	once := filepath.Join(t.TempDir(), "once")
	script := fmt.Sprintf("[ -e %[1]s ] && exit 7; touch %[1]s; exec env %[2]s=plain %[3]s", once, partyVariable, os.Args[0])
	k := talkTo(t, options{init: true}, "sh", "-c", script)
	k.call(1, "die", "")
	k.want(`"id":1,`, "exit status 3")
	k.call(2, "echo", "x")
	k.want(`"id":2,`, `"isError":true`, "cannot be started anew", "it ended at once")
	k.send(`{"jsonrpc":"2.0","id":3,"method":"tools/list"}`)
	k.want(`"id":3,`, `"error"`, "cannot be started anew")
	if s := k.status("server/s"); s.Failures != 3 {
		t.Errorf("%d failures, want 3", s.Failures)
	}
	if err := os.Remove(once); err != nil {
		t.Fatal(err)
	}
	k.call(4, "echo", "healed")
	k.want(`"id":4,`, "healed")
}

func TestAServerThatKeepsDyingOpensItsCircuit(t *testing.T) {
	k := talkTo(t, options{init: true}, party("plain")...)
	for i := range 5 {
		k.call(i, fmt.Sprint("die", i), "")
		k.want(fmt.Sprintf(`"id":%d,`, i), "exit status 3")
	}
	if s := k.status("server/s"); s.Phase != fusebox.Open {
		t.Fatalf("the server's circuit is %v with %d failures", s.Phase, s.Failures)
	}
	k.call(1000, "echo", "x")
	k.want(`"id":1000,`, `"reason":"open"`, `"circuit":"server/s"`)
	k.send(`{"jsonrpc":"2.0","id":1001,"method":"tools/list"}`)
	k.want(`"id":1001,`, `"error"`, "s is unavailable")
}

// TestEveryCallIsAnsweredOnce: whatever happens to the server meanwhile, and
// however late its answers are.
func TestEveryCallIsAnsweredOnce(t *testing.T) {
	const calls = 300
	never := func(name string) fusebox.Policy {
		p := fusebox.DefaultPolicy(fusebox.Kind(name))
		p.Trip, p.OnClass = []fusebox.Trip{}, nil
		return p
	}
	thrash := fusebox.Thrash{Repeats: 1000, Forget: time.Hour}
	limit := func(tool string) time.Duration {
		if tool == "hang" {
			return 20 * time.Millisecond
		}
		return 0
	}
	k := talkTo(t, options{init: true, box: fusebox.Config{Policy: never, Thrash: thrash}, mcp: mcp.Config{Deadline: limit}}, party("plain")...)
	go func() {
		for id := range calls {
			tool := "echo"
			switch {
			case id%61 == 60:
				tool = "die"
			case id%7 == 3:
				tool = "hang"
			case id%5 == 4:
				tool = "fail"
			}
			fmt.Fprintf(k.in, `{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":{"text":"%d"}}}`+"\n", 1000+id, tool, id)
		}
	}()
	answers := map[string]int{}
	for len(answers) < calls {
		if id := regexp.MustCompile(`"id":(1\d\d\d),`).FindStringSubmatch(k.next()); id != nil {
			answers[id[1]]++
		}
	}
	k.send(`{"jsonrpc":"2.0","id":"last","method":"ping"}`)
	for {
		line := k.next()
		if id := regexp.MustCompile(`"id":(1\d\d\d),`).FindStringSubmatch(line); id != nil {
			answers[id[1]]++
		}
		if strings.Contains(line, `"last"`) {
			break
		}
	}
	for id, n := range answers {
		if n != 1 {
			t.Errorf("call %s has %d answers", id, n)
		}
	}
}

func TestAServerThatNeverAnsweredEndsTheGuard(t *testing.T) {
	k := talkTo(t, options{}, party("stillborn")...)
	if code := k.wait(); code != 7 {
		t.Errorf("exit code %d, want the server's", code)
	}
	if s := k.status("server/s"); s.LastClass != fusebox.ClassCrash {
		t.Errorf("have %v", s.LastClass)
	}
}

func TestACommandThatIsNone(t *testing.T) {
	k := talkTo(t, options{}, "/no/such/program")
	if code := k.wait(); code != 1 || !strings.Contains(k.errors.String(), "/no/such/program") {
		t.Errorf("code %d, %s", code, k.errors)
	}
}

// TestNothingIsLeftBehind: a server that neither the end of its input nor
// SIGTERM ends is killed, and its child that holds the pipes, too.
func TestNothingIsLeftBehind(t *testing.T) {
	for _, how := range []string{"the client leaves", "SIGTERM"} {
		t.Run(how, func(t *testing.T) {
			k := talkTo(t, options{init: true}, party("stubborn")...)
			k.call(1, "hang", "")
			k.call(2, "echo", "there")
			k.want("there")
			if how == "SIGTERM" {
				k.signals <- syscall.SIGTERM
			} else {
				k.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`)
				k.want("notifications/heard")
				k.want("too late")
				k.in.Close()
			}
			k.wait()
			if match := regexp.MustCompile(`child (\d+)`).FindStringSubmatch(k.errors.String()); match != nil {
				pid, _ := strconv.Atoi(match[1])
				eventually(t, "the end of the server's child", func() bool { return !runs(pid) })
			}
		})
	}
}

// runs reports whether a process runs; one that has ended and waits for its
// parent does not.
func runs(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err != nil || !strings.Contains(string(stat), ") Z ")
}

// The server waits in no child of its own: a shell heeds a signal only when its
// child has ended, which may be too late.
func TestASignalReachesTheServer(t *testing.T) {
	heard := make(chan os.Signal, 1)
	signal.Notify(heard, os.Interrupt) // else the server ignores it where these tests were started to
	defer signal.Stop(heard)
	k := talkTo(t, options{}, "sh", "-c", `trap 'echo "{\"heard\":\"INT\"}"; exit 0' INT; echo ready; while :; do read x; done`)
	k.want("ready")
	k.signals <- syscall.SIGINT
	k.want("heard")
	k.wait()
}
