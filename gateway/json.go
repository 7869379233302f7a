package gateway

import (
	"bytes"
	"encoding/json"
	"strconv"
)

// maxDepth bounds how deep JSON may nest: no model call needs more, and a
// backend's parser should not have to find out.
const maxDepth = 1000

// members walks over the members of a JSON object in place, without decoding
// it and without allocating. Values are skipped, not checked in full: the
// backend does that.
type members struct {
	b      []byte
	at     int
	begun  bool
	closed bool // the object ended properly
}

// next returns the next key, without its quotes, and its raw value. ok is
// false at the end of the object, and where it is malformed or cut off; closed
// tells which.
func (m *members) next() (key, value []byte, ok bool) {
	if key, ok = m.key(); !ok {
		return nil, nil, false
	}
	if value, ok = m.value(); !ok {
		return nil, nil, false
	}
	return key, value, true
}

// key returns the next key and moves to its value, which value returns and pass
// moves past.
func (m *members) key() (key []byte, ok bool) {
	first := !m.begun
	if first {
		m.begun = true
		if !m.eat('{') {
			return nil, false
		}
	}
	switch {
	case m.eat('}'):
		m.closed = true
		return nil, false
	case !first && !m.eat(','):
		return nil, false
	case !m.eat('"'):
		return nil, false
	}
	for i, c := range m.b[m.at:] { // keys are short
		switch c {
		case '"':
			key = m.b[m.at : m.at+i]
			m.at += i + 1
			return key, m.eat(':')
		case '\\':
			return m.escapedKey(m.at - 1)
		}
	}
	return nil, false
}

// escapedKey is key for one with escapes, which begins at a place.
func (m *members) escapedKey(at int) (key []byte, ok bool) {
	m.at = at
	quoted, ok := m.value()
	return plain(quoted), ok && m.eat(':')
}

// inner returns a walk over the value at the cursor. Move past that with pass.
func (m *members) inner() members { return members{b: m.b, at: m.at} }

// pass moves past the value at the cursor, of which inner was a walk.
func (m *members) pass(inner *members) bool {
	if inner.closed {
		m.at = inner.at
		return true
	}
	_, ok := m.value()
	return ok
}

// rest returns what follows the object.
func (m *members) rest() []byte { return m.b[m.at:] }

// elements walks over the elements of a JSON array, as members does over an object.
type elements struct {
	members
}

func (e *elements) next() (value []byte, ok bool) {
	if !e.more() {
		return nil, false
	}
	return e.value()
}

// more moves to the next element, which value returns and pass moves past.
func (e *elements) more() bool {
	first := !e.begun
	if first {
		e.begun = true
		if !e.eat('[') {
			return false
		}
	}
	if e.eat(']') {
		e.closed = true
		return false
	}
	return first || e.eat(',')
}

// member returns the raw value of one member, nil if there is none.
func member(object []byte, name string) []byte {
	for m := (members{b: object}); ; {
		key, value, ok := m.next()
		if !ok {
			return nil
		}
		if string(key) == name {
			return value
		}
	}
}

// eat skips white space and then c, and reports whether c was there.
func (m *members) eat(c byte) bool {
	m.at = skipSpace(m.b, m.at)
	if m.at < len(m.b) && m.b[m.at] == c {
		m.at++
		return true
	}
	return false
}

// value returns the raw value at the cursor and moves past it.
func (m *members) value() ([]byte, bool) {
	start := skipSpace(m.b, m.at)
	end, ok := skipValue(m.b, start)
	if !ok {
		return nil, false
	}
	m.at = end
	return m.b[start:end], true
}

func skipSpace(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\n' || b[i] == '\r' || b[i] == '\t') {
		i++
	}
	return i
}

// skipValue returns where the value that begins at i ends.
func skipValue(b []byte, i int) (end int, ok bool) {
	if i >= len(b) {
		return 0, false
	}
	switch b[i] {
	case '"':
		return skipString(b, i)
	case '{', '[':
		return skipNested(b, i)
	}
	return skipLiteral(b, i)
}

// skipString returns where the string whose opening quote is at i ends.
func skipString(b []byte, i int) (end int, ok bool) {
	for from := i + 1; ; {
		n := bytes.IndexByte(b[from:], '"')
		if n < 0 {
			return 0, false
		}
		quote := from + n
		slashes := 0
		for b[quote-1-slashes] == '\\' {
			slashes++
		}
		if slashes%2 == 0 {
			return quote + 1, true
		}
		from = quote + 1
	}
}

// skipNested returns where the object or array that begins at i ends.
func skipNested(b []byte, i int) (end int, ok bool) {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i, ok = skipString(b, i); !ok {
				return 0, false
			}
			continue
		case '{', '[':
			if depth++; depth > maxDepth {
				return 0, false
			}
		case '}', ']':
			if depth--; depth == 0 {
				return i + 1, true
			}
		}
		i++
	}
	return 0, false
}

// skipLiteral returns where the number, true, false or null that begins at i ends.
func skipLiteral(b []byte, i int) (end int, ok bool) {
	end = i
	for end < len(b) && (b[end] >= '0' && b[end] <= '9' || b[end] >= 'a' && b[end] <= 'z' ||
		b[end] == '-' || b[end] == '+' || b[end] == '.' || b[end] == 'E') {
		end++
	}
	switch word := b[i:end]; {
	case len(word) == 0:
		return 0, false
	case word[0] == '-', word[0] >= '0' && word[0] <= '9':
		return end, true
	default:
		return end, string(word) == "true" || string(word) == "false" || string(word) == "null"
	}
}

// plain returns a quoted string's content. Only a string with escapes is
// copied. It is nil for what is no string.
func plain(quoted []byte) []byte {
	if len(quoted) < 2 || quoted[0] != '"' {
		return nil
	}
	inner := quoted[1 : len(quoted)-1]
	if bytes.IndexByte(inner, '\\') < 0 {
		return inner
	}
	var s string
	if json.Unmarshal(quoted, &s) != nil {
		return nil
	}
	return []byte(s)
}

// isNull reports whether a raw value is absent or null.
func isNull(value []byte) bool { return len(value) == 0 || string(value) == "null" }

// isEmpty reports whether a raw value says nothing: absent, null, "", [] or {}.
func isEmpty(value []byte) bool {
	switch {
	case isNull(value):
		return true
	case value[0] == '"':
		return len(value) == 2
	case value[0] == '[', value[0] == '{':
		return len(bytes.TrimSpace(value[1:len(value)-1])) == 0
	}
	return false
}

// integer returns a raw value as a number, or the given default.
func integer(value []byte, otherwise int) int {
	if n, err := strconv.Atoi(string(value)); err == nil {
		return n
	}
	return otherwise
}
