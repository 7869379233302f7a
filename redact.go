package fusebox

import "regexp"

// secrets matches what must never reach a log: bearer tokens, keys by the
// prefixes that providers give them, passwords in URLs, and named values.
var secrets = regexp.MustCompile(`(?i)` +
	`(bearer|basic)\s+[a-z0-9._~+/=-]{6,}` +
	`|\b(sk|pk|rk|xox[a-z]|gh[a-z]|glpat|hf|key)[-_][a-z0-9*_-]{6,}` +
	`|\bAIza[a-z0-9_-]{10,}` +
	`|\bAKIA[a-z0-9]{10,}` +
	`|\beyJ[a-z0-9_-]{8,}\.[a-z0-9_.-]+` +
	`|(://[^/\s:@]*:)[^/\s@]+@` +
	`|((?:api[-_]?key|token|secret|password|authorization)["']?\s*[:=]\s*["']?)[^\s"'&,;]{4,}`)

// redact replaces secrets in s.
func redact(s string) string {
	return secrets.ReplaceAllString(s, "${3}${4}[redacted]")
}
