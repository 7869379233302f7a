package main

import (
	"strings"
	"testing"
)

func TestExitCodes(t *testing.T) {
	tests := []struct {
		name string
		args []string
		want int
		says string // on standard error
	}{
		{"help", []string{"--help"}, exitOK, ""},
		{"no command shows the help", nil, exitOK, ""},
		{"version", []string{"version"}, exitOK, ""},
		{"unknown command", []string{"statsu"}, exitUsage, `unknown command "statsu"`},
		{"unknown flag", []string{"status", "--frobnicate"}, exitUsage, "unknown flag: --frobnicate"},
		{"flag without its value", []string{"status", "--store"}, exitUsage, "--store"},
		{"too many arguments", []string{"version", "x"}, exitUsage, "want fusebox version, have 1 argument"},
		{"too few arguments", []string{"trip"}, exitUsage, "want fusebox trip CIRCUIT…, have 0 arguments"},
		{"one too many", []string{"why", "a/b", "c/d"}, exitUsage, "want fusebox why CIRCUIT, have 2 arguments"},
		{"shell of no kind", []string{"completion", "tcsh"}, exitUsage, `unknown command "tcsh"`},
		{"bad duration", []string{"hold", "open", "a/b", "--for", "soon"}, exitUsage, "--for"},
		{"store of no kind", []string{"status", "--store", "ftp://x"}, exitUsage, "--store"},
		{"store without a scheme", []string{"status", "--store", "/tmp/x"}, exitUsage, "file:///"},
		{"name refused", []string{"why", "../etc/passwd"}, exitUsage, `".."`},
		{"name with a control character", []string{"trip", "a/b\x07"}, exitUsage, "control character"},
		{"10 kB name", []string{"why", strings.Repeat("x", 10_000)}, exitUsage, "longer than 200 bytes"},
	}
	p := newPlace(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r := p.run(tt.args...)
			if r.code != tt.want || !strings.Contains(r.stderr, tt.says) {
				t.Errorf("want exit code %d and %q, have %d and\n%s", tt.want, tt.says, r.code, r.stderr)
			}
			if r.code != exitOK && r.stdout != "" {
				t.Errorf("an error leaves standard output empty, have %q", r.stdout)
			}
		})
	}
}

func TestVersionAsJSON(t *testing.T) {
	var got map[string]string
	newPlace(t).must("version", "--json").decode(t, &got)
	for _, key := range []string{"version", "go", "platform"} {
		if got[key] == "" {
			t.Errorf("want %s, have %v", key, got)
		}
	}
}

func TestEveryCommandHasTheGlobalFlagsAndHelp(t *testing.T) {
	a := &app{}
	root := a.rootCommand()
	for _, c := range root.Commands() {
		for _, flag := range []string{"config", "store", "json", "verbose"} {
			if c.InheritedFlags().Lookup(flag) == nil {
				t.Errorf("%s lacks --%s", c.Name(), flag)
			}
		}
		if c.Short == "" {
			t.Errorf("%s has no short help", c.Name())
		}
	}
}

func TestCompletionScript(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := newPlace(t).must("completion", shell); !strings.Contains(r.stdout, "fusebox") {
			t.Errorf("%s: no script", shell)
		}
	}
}
