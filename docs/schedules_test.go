//go:build unix

package docs_test

import (
	"regexp"
	"slices"
	"strings"
)

var (
	cronVariable = regexp.MustCompile(`^[A-Z_]+=\S*$`)
	cronEntry    = regexp.MustCompile(`^(?:[0-9*,/-]+ +){5}(\S.*)$`)
)

// crontab checks the lines of a crontab and runs its commands.
func (s *session) crontab(b block) {
	entries := 0
	for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
		entry := cronEntry.FindStringSubmatch(line)
		switch {
		case entry == nil && line != "" && !strings.HasPrefix(line, "#") && !cronVariable.MatchString(line):
			s.t.Errorf("line %d: neither five times and a command, nor a variable: %s", b.line+i, line)
		case entry != nil && strings.Contains(entry[1], "%"):
			s.t.Errorf("line %d: cron takes %% for the end of the command: %s", b.line+i, line)
		case entry != nil:
			entries++
			s.scheduled(b.line+i, entry[1])
		}
	}
	if entries == 0 {
		s.t.Errorf("line %d: no command found", b.line)
	}
}

// directives are those of systemd's that the documents use, by section.
var directives = map[string][]string{
	"[Unit]":    {"Description"},
	"[Service]": {"Type", "ExecStart", "SuccessExitStatus", "KillMode"},
	"[Timer]":   {"OnCalendar", "RandomizedDelaySec"},
	"[Install]": {"WantedBy"},
}

// unit checks the lines of a service or a timer, and runs what a service starts.
func (s *session) unit(b block) {
	var section, starts string
	for i, line := range strings.Split(strings.TrimSpace(b.text), "\n") {
		key, value, isDirective := strings.Cut(line, "=")
		switch {
		case line == "" || strings.HasPrefix(line, "#"):
		case directives[line] != nil:
			section = line
		case !isDirective || !slices.Contains(directives[section], key):
			s.t.Errorf("line %d: no directive of %s: %s", b.line+i, section, line)
		case key == "ExecStart":
			starts = value
			s.scheduled(b.line+i, value)
		case key == "OnCalendar":
			starts = value
		}
	}
	if starts == "" {
		s.t.Errorf("line %d: it starts nothing", b.line)
	}
}

// scheduled adds a command that something else starts: it must succeed or be
// denied.
func (s *session) scheduled(line int, command string) {
	here := strings.NewReplacer("/usr/local/bin/", "", "%h", "$HOME")
	s.steps = append(s.steps, step{line: line, command: "( " + here.Replace(command) + " ) || [ $? -eq 75 ]"})
	s.add(len(s.steps) - 1)
}
