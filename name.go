package fusebox

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// maxName bounds a circuit's name, in bytes.
const maxName = 200

// NameError says why a circuit's name was refused. It matches ErrName.
type NameError struct {
	Name   string // as given, shortened
	Reason string
}

func (e *NameError) Error() string {
	return fmt.Sprintf("fusebox: circuit name %q: %s", e.Name, e.Reason)
}

// Is reports whether target is [ErrName].
func (e *NameError) Is(target error) bool { return target == ErrName }

// CanonicalName returns the one spelling of a circuit's name, or a
// *[NameError]. A writer and a reader that spell a name differently would make
// the guard blind, so every entry goes through here.
//
// A name is kind/name, as in "model/openai/gpt-5", "tool/crm/lookup",
// "session/claude"; the name may hold further slashes, a bare word has no
// kind. Letters become lower case, outer space and empty segments are dropped.
// Refused: nothing at all, more than 200 bytes, invalid UTF-8, space or control
// characters inside, "." and ".." as a segment, a backslash. It is idempotent.
func CanonicalName(name string) (string, error) {
	refuse := func(reason string) (string, error) {
		shown := strings.ToValidUTF8(name, "?")
		if len(shown) > 60 {
			shown = strings.ToValidUTF8(shown[:60], "") + "…"
		}
		return "", &NameError{Name: shown, Reason: reason}
	}
	if isCanonical(name) {
		return name, nil
	}
	if len(name) > 4*maxName {
		return refuse(fmt.Sprintf("longer than %d bytes", maxName))
	}
	if !utf8.ValidString(name) {
		return refuse("not valid UTF-8")
	}
	lower := strings.ToLower(strings.TrimSpace(name))
	segments := strings.FieldsFunc(lower, func(r rune) bool { return r == '/' })
	for _, s := range segments {
		if s == "." || s == ".." {
			return refuse(`has a path segment "` + s + `"`)
		}
	}
	canonical := strings.Join(segments, "/")
	for _, r := range canonical {
		if !unicode.IsGraphic(r) || unicode.IsSpace(r) {
			return refuse("holds a space or a control character")
		}
		if r == '\\' {
			return refuse("holds a backslash")
		}
	}
	if canonical == "" {
		return refuse("is empty")
	}
	if len(canonical) > maxName {
		return refuse(fmt.Sprintf("longer than %d bytes", maxName))
	}
	return canonical, nil
}

// isCanonical reports, without allocating, whether a plain ASCII name is
// canonical already; false only means that it must be looked at closely.
func isCanonical(name string) bool {
	if len(name) == 0 || len(name) > maxName {
		return false
	}
	previous := byte('/')
	for i := 0; i < len(name); i++ {
		b := name[i]
		switch {
		case b == '/' && previous == '/':
			return false
		case b == '.' && (previous == '/' || previous == '.'):
			return false
		case b <= ' ', b >= 0x7f, b == '\\', 'A' <= b && b <= 'Z':
			return false
		}
		previous = b
	}
	return previous != '/'
}

// Kind returns what comes before a canonical name's first slash: "model" for
// "model/openai/gpt-5", and "" for a bare word.
func Kind(name string) string {
	kind, _, found := strings.Cut(name, "/")
	if !found {
		return ""
	}
	return kind
}
