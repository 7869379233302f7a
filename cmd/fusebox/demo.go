package main

import (
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"github.com/fusebox-go/fusebox/cmd/fusebox/stories"
)

func (a *app) demoCommand() *cobra.Command {
	var completions []string
	for _, name := range stories.Names() {
		completions = append(completions, strings.ReplaceAll(name, " ", "-"))
	}
	return &cobra.Command{
		Use:   "demo [STORY]",
		Short: "Five stories, each without and with the guard",
		Long: `demo tells five stories of agents and workers that call something which fails,
each without and with the guard: ` + strings.Join(stories.Names(), ", ") + `.
Time in them is virtual; the circuits, runs and denials are real. Nothing is
called, read or written.

It is not the demo of "fusebox up --demo", which serves two backends to watch.`,
		Example: `  fusebox demo
  fusebox demo long outage`,
		ValidArgs: completions,
		RunE: func(_ *cobra.Command, words []string) error {
			names := stories.Names()
			if len(words) > 0 {
				names = []string{strings.Join(words, " ")}
			}
			for i, name := range names {
				s, err := stories.Tell(name)
				if err != nil {
					return usagef("%w", err)
				}
				if a.json {
					if err := a.printJSON(s); err != nil {
						return err
					}
					continue
				}
				if i > 0 {
					a.printf("\n\n")
				}
				a.printStory(&s)
			}
			return nil
		},
	}
}

// pageWidth is how wide the stories are: every terminal has as much.
const pageWidth = 80

func (a *app) printStory(s *stories.Story) {
	a.printf("%s: %s\n\n", a.paint(bold, strings.ToUpper(s.Name)), s.Title)
	a.printf("%s\n\n", strings.Join(wrapped(s.Setting, pageWidth), "\n"))
	t := &table{}
	for i, row := range s.Table {
		var cells []any
		for _, text := range row {
			if text == "" && i == 0 {
				text = " " // a heading without words, not without a value
			}
			cells = append(cells, text)
		}
		t.row(cells...)
	}
	a.printTable(t)
	a.printf("\n")
	for _, said := range s.Said {
		a.printLabelled(faint, "told", said)
	}
	a.printLabelled(red, "without", s.Without.Text)
	a.printLabelled(green, "with", s.With.Text)
	a.printLabelled(bold, "why", s.Why)
}

// printLabelled writes text beside a label, as many lines as it needs.
func (a *app) printLabelled(c colour, label, text string) {
	const indent = len("without  ")
	for i, line := range wrapped(text, pageWidth-indent) {
		if i > 0 {
			label = ""
		}
		a.printf("%s%s%s\n", a.paint(c, label), strings.Repeat(" ", indent-len(label)), line)
	}
}

// wrapped breaks text into lines of at most width characters.
func wrapped(text string, width int) []string {
	var lines []string
	var line string
	for _, word := range strings.Fields(text) {
		switch {
		case line == "":
			line = word
		case utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width:
			lines = append(lines, line)
			line = word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}
