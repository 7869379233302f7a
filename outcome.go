package fusebox

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// Outcome is what one observed result says. The circuit asks of it "did the
// dependency work?", thrash asks "did the plan work?".
type Outcome uint8

const (
	Success   Outcome = iota // the dependency worked and the plan did
	Rejected                 // it answered, and refused what was asked: works for the circuit, counts for thrash
	Failure                  // it did not work; see Class
	Throttled                // it asked to be left alone until a time: neither worked nor failed
	Canceled                 // the caller gave up: no evidence of anything
)

var outcomeNames = [...]string{"success", "rejected", "failure", "throttled", "canceled"}

// String returns the word that logs, flags and metrics use.
func (o Outcome) String() string {
	if int(o) < len(outcomeNames) {
		return outcomeNames[o]
	}
	return fmt.Sprintf("outcome(%d)", uint8(o))
}

// ParseOutcome is the inverse of [Outcome.String].
func ParseOutcome(s string) (Outcome, error) {
	for i, name := range outcomeNames {
		if s == name {
			return Outcome(i), nil
		}
	}
	return 0, fmt.Errorf("fusebox: unknown outcome %q, want one of %s", s, strings.Join(outcomeNames[:], ", "))
}

// Class tells what kind of failure a [Failure] was.
type Class string

const (
	ClassTimeout    Class = "timeout"    // a deadline passed, whoever set it
	ClassConnect    Class = "connect"    // no connection: refused, unreachable, no such host
	ClassReset      Class = "reset"      // the connection broke before an answer
	ClassServer     Class = "server"     // it answered that it is broken (5xx)
	ClassOverloaded Class = "overloaded" // it answered that it has too much to do (503, 529)
	ClassStall      Class = "stall"      // it began to answer and fell silent
	ClassStream     Class = "stream"     // it began to answer and broke off
	ClassCrash      Class = "crash"      // a process ended badly
	ClassAuth       Class = "auth"       // the credential was refused; waiting does not mend it
	ClassPanic      Class = "panic"      // the guarded function panicked
	ClassTool       Class = "tool"       // a tool said that it failed
)

// Classes lists every class, in the order of the documentation.
var Classes = []Class{ClassTimeout, ClassConnect, ClassReset, ClassServer, ClassOverloaded, ClassStall,
	ClassStream, ClassCrash, ClassAuth, ClassPanic, ClassTool}

// ParseClass returns the class named s.
func ParseClass(s string) (Class, error) {
	for _, c := range Classes {
		if string(c) == s {
			return c, nil
		}
	}
	names := make([]string, len(Classes))
	for i, c := range Classes {
		names[i] = string(c)
	}
	return "", fmt.Errorf("fusebox: unknown class %q, want one of %s", s, strings.Join(names, ", "))
}

// Result is what a guarded call reports. The zero Result is a success.
type Result struct {
	Outcome   Outcome
	Class     Class     // of a Failure
	Err       error     // what the caller saw; shortened and stripped of secrets before it is kept
	NotBefore time.Time // of Throttled, and of a Failure that names one (503 with Retry-After): when the dependency wants to be asked again; zero = it did not say
	Attempts  int       // calls made, retries included; 0 means 1
	Run, Call string    // which run, and the Signature of the exact call; for Policy.Distinct
}

// MaxThrottle caps what a dependency may ask for: an absurd Retry-After must
// not bench it for ever.
const MaxThrottle = 24 * time.Hour

// ResultError carries a Result through an error, for functions that know
// better than a classifier what their error means.
type ResultError struct{ Result Result }

func (e *ResultError) Error() string {
	if e.Result.Err == nil {
		return "fusebox: " + e.Result.Outcome.String()
	}
	return e.Result.Err.Error()
}

// Unwrap returns the error that the Result carries.
func (e *ResultError) Unwrap() error { return e.Result.Err }

// Reject marks err as [Rejected]: the dependency answered, and repeating the
// same call will not help.
func Reject(err error) error { return &ResultError{Result{Outcome: Rejected, Err: err}} }

// Fail marks err as a [Failure] of class c.
func Fail(c Class, err error) error {
	return &ResultError{Result{Outcome: Failure, Class: c, Err: err}}
}

// Throttle marks err as [Throttled] until notBefore (zero: it did not say).
func Throttle(notBefore time.Time, err error) error {
	return &ResultError{Result{Outcome: Throttled, NotBefore: notBefore, Err: err}}
}

// maxErrorText bounds the error text that evidence and denials keep, in bytes.
const maxErrorText = 200

// ErrorText returns err's text as evidence keeps it: one line, at most 200
// bytes, valid UTF-8, without what looks like a secret. It is "" for nil.
func ErrorText(err error) string {
	if err == nil {
		return ""
	}
	var re *ResultError
	if errors.As(err, &re) && re.Result.Err != nil {
		err = re.Result.Err
	}
	return ShortText(err.Error())
}

// ShortText makes s fit for evidence: see [ErrorText].
func ShortText(s string) string {
	if len(s) > 4*maxErrorText {
		s = s[:4*maxErrorText]
		if word := strings.LastIndexAny(s, " \t\r\n"); word > 0 {
			s = s[:word] // half a word may be half a secret, which nothing recognises
		}
	}
	s = strings.ToValidUTF8(s, "")
	s = redact(s)
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if len(s) <= maxErrorText {
		return s
	}
	s = s[:maxErrorText-3]
	for !utf8.ValidString(s) {
		s = s[:len(s)-1]
	}
	return s + "…"
}
