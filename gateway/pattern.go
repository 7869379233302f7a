package gateway

import "strings"

// matches reports whether name matches a pattern in which * stands for any
// text, slashes included.
func matches(pattern, name string) bool {
	head, rest, starred := strings.Cut(pattern, "*")
	if !starred {
		return pattern == name
	}
	if !strings.HasPrefix(name, head) {
		return false
	}
	name = name[len(head):]
	for {
		part, more, again := strings.Cut(rest, "*")
		if !again {
			return strings.HasSuffix(name, part)
		}
		i := strings.Index(name, part)
		if i < 0 {
			return false
		}
		name, rest = name[i+len(part):], more
	}
}

// literal is how exact a pattern is: the length of what it spells out.
func literal(pattern string) int { return len(pattern) - strings.Count(pattern, "*") }

// mapped returns what the most exact pattern of a map gives for name, or name.
func mapped(models map[string]string, name string) string {
	if to, exact := models[name]; exact {
		return to
	}
	best, found := "", name
	for pattern, to := range models {
		if !matches(pattern, name) {
			continue
		}
		if n, m := literal(pattern), literal(best); best == "" || n > m || n == m && pattern < best {
			best, found = pattern, to
		}
	}
	return found
}
