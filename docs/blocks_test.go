package docs_test

import "strings"

// block is a fenced block of a document.
type block struct {
	line int    // of its first line of text
	lang string // what stands after the fence
	text string
}

// blocksOf returns the fenced blocks of a document, in order.
func blocksOf(document string) []block {
	var blocks []block
	var open *block
	for i, line := range strings.Split(document, "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &block{line: i + 2, lang: fence}
		case isFence:
			blocks = append(blocks, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	return blocks
}
