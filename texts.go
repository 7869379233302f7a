package fusebox

import (
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"text/template"
)

//go:embed denials.tmpl
var builtinDenials string

// The texts that are not named for a reason.
const (
	scriptThrash    = "thrash"
	scriptSameError = "same_error"
)

// scripts names every text; each may also have a second and a third form, for
// a run that is refused the same again: "open.2", "open.3".
var scripts = []string{string(ReasonOpen), string(ReasonProbing), string(ReasonThrottled), string(ReasonHeld),
	scriptThrash, scriptSameError, string(ReasonStuck)}

// Texts words denials. It is safe for concurrent use.
type Texts struct{ t *template.Template }

// DenialText is what a text may speak of.
type DenialText struct {
	Tool      string // what the caller knows it by: Circuit without its kind
	Circuit   string
	Reason    Reason
	Seconds   int // until asking again is worth it, rounded up; 0 = not known
	Failures  int
	LastError string // short, without secrets and without advice to repeat the call; of "stuck": why
	Run       string
	Times     int      // how often this was refused, this time included
	Working   []string // other tools of the run whose last call worked
}

// ParseTexts reads templates (see package text/template) that replace the
// built-in texts of denials: each {{define}} names the one that it replaces,
// as "open", "throttled.2" or "same_error.3". What is not defined stays as it
// is built in. The fields are those of [DenialText]; the function list joins
// names.
func ParseTexts(src string) (*Texts, error) {
	own, err := template.New("texts").Funcs(textFuncs).Parse(src)
	if err != nil {
		return nil, fmt.Errorf("fusebox: texts: %w", err)
	}
	var errs []error
	for _, t := range own.Templates() {
		if t != own && !isScript(t.Name()) {
			errs = append(errs, fmt.Errorf("fusebox: texts: %q is no text of a denial, want one of %s, or one of these with .2 or .3",
				t.Name(), strings.Join(scripts, ", ")))
		}
	}
	texts, err := template.Must(builtinTexts().t.Clone()).Parse(src)
	if err != nil {
		return nil, fmt.Errorf("fusebox: texts: %w", err)
	}
	sample := DenialText{Tool: "crm/lookup", Circuit: "tool/crm/lookup", Reason: ReasonOpen, Seconds: 30, Failures: 3,
		LastError: "503", Run: "r", Times: 2, Working: []string{"search"}}
	for _, t := range texts.Templates() {
		if _, err := render(t, sample); err != nil {
			errs = append(errs, fmt.Errorf("fusebox: texts: %w", err))
		}
	}
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return &Texts{texts}, nil
}

func isScript(name string) bool {
	if name == "instead" { // what the others end with
		return true
	}
	for _, s := range scripts {
		if name == s || name == s+".2" || name == s+".3" {
			return true
		}
	}
	return false
}

var builtinTexts = sync.OnceValue(func() *Texts {
	return &Texts{template.Must(template.New("texts").Funcs(textFuncs).Parse(builtinDenials))}
})

var textFuncs = template.FuncMap{"list": enumerate, "plural": plural}

// enumerate joins names as a sentence does.
func enumerate(names []string) string {
	if len(names) < 2 {
		return strings.Join(names, "")
	}
	return strings.Join(names[:len(names)-1], ", ") + " and " + names[len(names)-1]
}

// instruction words d. A text that fails gives way to the built-in one.
func (x *Texts) instruction(d *Denial) string {
	script := d.script
	if script == "" {
		script = string(d.reason)
	}
	about := DenialText{Tool: toolName(d.circuit), Circuit: d.circuit, Reason: d.reason, Seconds: Seconds(d.RetryAfter()),
		Failures: d.failures, LastError: withoutAdvice(d.last), Run: d.run, Times: max(d.times, 1), Working: d.working}
	if x != nil {
		if text, err := render(x.form(script, about.Times), about); err == nil {
			return text
		}
	}
	text, err := render(builtinTexts().form(script, about.Times), about)
	if err != nil {
		return fmt.Sprintf("%s is refused (%s). Continue without it, and say so in your answer.", about.Tool, d.reason)
	}
	return text
}

// form returns the text for the given time, or the one before it where there
// is none.
func (x *Texts) form(script string, times int) *template.Template {
	for n := min(times, 3); n > 1; n-- {
		if t := x.t.Lookup(script + "." + strconv.Itoa(n)); t != nil {
			return t
		}
	}
	return x.t.Lookup(script)
}

// render puts the text on one line.
func render(t *template.Template, about DenialText) (string, error) {
	if t == nil {
		return "", errors.New("fusebox: no such text")
	}
	var b strings.Builder
	if err := t.Execute(&b, about); err != nil {
		return "", err
	}
	return strings.Join(strings.Fields(b.String()), " "), nil
}

// advice is what an error may say that a denial must not repeat: to call again,
// and times as numbers of seconds since the epoch, which a model cannot read.
var advice = regexp.MustCompile(`(?i)[^.,;!?()]*\b(try(ing)?( it)? again|retr(y|ies|ying))\b[^.;!?()]*[.;!?]?|\b1\d{9}(\d{3})?\b`)

func withoutAdvice(text string) string {
	return strings.TrimRight(strings.Join(strings.Fields(advice.ReplaceAllString(text, "")), " "), " .,;:(")
}
