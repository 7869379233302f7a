package mcp

import (
	"bytes"
	"encoding/json"
)

// members calls f with every member of a JSON object, in order, and reports
// whether b is one. Keys come without quotes, values as the bytes they are. It
// looks at the structure alone, in one pass, without a limit of depth or length
// and without memory: what is not JSON is not its business to refuse, but
// everything that is JSON it reads right.
func members(b []byte, f func(key, value []byte)) bool {
	i := space(b, 0)
	if i == len(b) || b[i] != '{' {
		return false
	}
	i = space(b, i+1)
	if i < len(b) && b[i] == '}' {
		return space(b, i+1) == len(b)
	}
	for {
		start := i
		i = skipString(b, i)
		if i < 0 {
			return false
		}
		key := plainKey(b[start:i])
		i = space(b, i)
		if i == len(b) || b[i] != ':' {
			return false
		}
		start = space(b, i+1)
		i = skipValue(b, start)
		if i < 0 {
			return false
		}
		f(key, b[start:i])
		i = space(b, i)
		if i == len(b) {
			return false
		}
		switch b[i] {
		case ',':
			i = space(b, i+1)
		case '}':
			return space(b, i+1) == len(b)
		default:
			return false
		}
	}
}

// plainKey takes the quotes off a key.
func plainKey(quoted []byte) []byte {
	for _, c := range quoted {
		if c == '\\' {
			var s string
			if json.Unmarshal(quoted, &s) != nil {
				break
			}
			return []byte(s)
		}
	}
	return quoted[1 : len(quoted)-1]
}

// space returns where the white space from i on ends.
func space(b []byte, i int) int {
	for i < len(b) && (b[i] == ' ' || b[i] == '\t' || b[i] == '\n' || b[i] == '\r') {
		i++
	}
	return i
}

// skipString returns where the string that begins at i ends, or -1.
func skipString(b []byte, i int) int {
	if i >= len(b) || b[i] != '"' {
		return -1
	}
	for start := i + 1; ; {
		n := bytes.IndexByte(b[i+1:], '"')
		if n < 0 {
			return -1
		}
		i += n + 1
		escapes := 0
		for escapes < i-start && b[i-1-escapes] == '\\' {
			escapes++
		}
		if escapes%2 == 0 {
			return i + 1
		}
	}
}

// skipValue returns where the value that begins at i ends, or -1.
func skipValue(b []byte, i int) int {
	depth := 0
	for i < len(b) {
		switch b[i] {
		case '"':
			if i = skipString(b, i); i < 0 {
				return -1
			}
			if depth == 0 {
				return i
			}
			continue
		case '{', '[':
			depth++
		case '}', ']':
			depth--
			if depth < 0 {
				return -1
			}
			if depth == 0 {
				return i + 1
			}
		default:
			if depth == 0 {
				return skipLiteral(b, i)
			}
		}
		i++
	}
	return -1
}

// skipLiteral returns where the number or word that begins at i ends, or -1.
func skipLiteral(b []byte, i int) int {
	start := i
	for i < len(b) {
		c := b[i]
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '-' && c != '+' && c != '.' && c != 'E' {
			break
		}
		i++
	}
	if i == start {
		return -1
	}
	return i
}
