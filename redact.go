package fusebox

import "regexp"

// secrets matches what must never reach a log: values by the name before them,
// with the scheme of an Authorization header; bearer tokens; keys by the
// prefixes that providers give them; passwords in URLs.
var secrets = regexp.MustCompile(`(?i)` +
	`((?:set-)?cookie["'\\]*\s*[:=]\s*)[^\r\n]+` +
	`|((?:(?:(?:api|access|secret|private|account|auth)[-_ ]?key|[?&]key|token|secret|passw(?:or)?d|authorization)["'\\]*\s*[:=]\s*[\["'\\]*)+)` +
	`(?:(?:bearer|basic|token|digest|apikey)\s+)?[^\s"'\\&,;\]]{4,}` +
	`|(?:bearer|basic)\s+[a-z0-9._~+/=-]{6,}` +
	`|\b(?:sk|pk|rk|gsk|xox[a-z]|gh[a-z]|github_pat|glpat|hf|key)[-_][a-z0-9*_-]{6,}` +
	`|\bAIza[a-z0-9_-]{10,}` +
	`|\bAKIA[a-z0-9]{10,}` +
	`|\beyJ[a-z0-9_-]{8,}\.[a-z0-9_.-]+` +
	`|(://[^/\s:@]*:)[^/\s@]+@`)

// redact replaces secrets in s.
func redact(s string) string {
	return secrets.ReplaceAllString(s, "${1}${2}${3}[redacted]")
}
