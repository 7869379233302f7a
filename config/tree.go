package config

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"
)

// Limits on what is looked at. A configuration is written by people; what is
// beyond these is a mistake or an attack.
const (
	maxFile    = 256 << 10 // bytes
	maxLine    = 8 << 10   // bytes
	maxEntries = 10_000    // lines and commas: the parser's time grows with their square
	maxDepth   = 32        // of brackets, and of the tree
)

var tooDeep = fmt.Sprintf("want at most %d levels of nesting, have more", maxDepth)

// kind is what stands at a place in the file.
type kind uint8

const (
	null kind = iota
	boolean
	number
	text
	list
	mapping
	unusable // was reported already
)

// node is one value of the file, with the place where it stands.
type node struct {
	Position
	path  string // "backends.paid.url"
	kind  kind
	text  string // of a scalar, as it is written, without quotes
	items []*node
	pairs []pair
}

type pair struct{ key, value *node }

// parseTree reads YAML into a tree, without anchors, aliases, tags and merge
// keys: they hide what a file says, and can make a small file huge.
func parseTree(file string, b []byte) (*node, Errors) {
	root := Position{File: file}
	whole := func(p Position, problem, do string) (*node, Errors) {
		return nil, Errors{{Position: p, Problem: problem, Do: do}}
	}
	if len(b) > maxFile {
		return whole(root, fmt.Sprintf("want a file of at most %d bytes, have %d or more", maxFile, len(b)), "is this the right file?")
	}
	if at, problem := scanLimits(b); problem != "" {
		at.File = file
		return whole(at, problem, "is this the right file?")
	}
	parsed, err := parseYAML(bytes.TrimPrefix(b, []byte("\ufeff")))
	if err != nil {
		p, problem := syntax(err)
		p.File = file
		return whole(p, problem, "see that brackets, quotes and indentation (by spaces) match; a name that begins with * goes in quotes")
	}
	t := &treeBuilder{file: file}
	tree := &node{Position: Position{File: file, Line: 1, Column: 1}}
	documents := 0
	for _, doc := range parsed.Docs {
		switch doc.Body.(type) {
		case nil, *ast.DirectiveNode:
			continue
		}
		if documents++; documents > 1 {
			t.fail(t.at(doc.Body), "", "want one document, have another one after ---", "put each configuration in a file of its own")
			continue
		}
		tree = t.build(doc.Body, "", 0)
	}
	return tree, t.errs
}

// parseYAML contains a panic of the parser: any bytes must give an answer.
func parseYAML(b []byte) (f *ast.File, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = errors.New("cannot be read as YAML")
		}
	}()
	return parser.ParseBytes(b, 0, parser.AllowDuplicateMapKey())
}

// syntax takes place and message out of the parser's error. The excerpt that it
// prints is left out, because the line may hold a secret.
func syntax(err error) (Position, string) {
	var e interface {
		GetToken() *token.Token
		GetMessage() string
	}
	if !errors.As(err, &e) {
		return Position{}, "is not valid YAML"
	}
	problem := "is not valid YAML: " + e.GetMessage()
	if t := e.GetToken(); t != nil && t.Position != nil {
		return Position{Line: max(t.Position.Line, 1), Column: max(t.Position.Column, 1)}, problem
	}
	return Position{}, problem
}

// scanLimits looks for what would make the parser work for long or recurse
// deeply. It counts brackets wherever they stand, in quotes and comments too.
func scanLimits(b []byte) (Position, string) {
	line, depth, commas := 0, 0, 0
	for rest := b; len(rest) > 0; {
		line++
		var current []byte
		current, rest, _ = bytes.Cut(rest, []byte("\n"))
		if len(current) > maxLine {
			return Position{Line: line, Column: 1}, fmt.Sprintf("want lines of at most %d bytes, have one of %d", maxLine, len(current))
		}
		if !utf8.Valid(current) {
			return Position{Line: line, Column: 1}, "want UTF-8 text, have other bytes"
		}
		if commas += bytes.Count(current, []byte(",")); line+commas > maxEntries {
			return Position{Line: line, Column: 1}, fmt.Sprintf("want at most %d lines and commas, have more", maxEntries)
		}
		lead := current[:len(current)-len(bytes.TrimLeft(current, " \t-?:"))]
		if n := len(lead) - bytes.Count(lead, []byte(" ")) - bytes.Count(lead, []byte("\t")); n > maxDepth {
			return Position{Line: line, Column: 1}, tooDeep
		}
		for i, c := range current {
			switch {
			case c == '[' || c == '{':
				depth++
			case c == ']' || c == '}':
				depth = max(depth-1, 0)
			case c < ' ' && c != '\t' && c != '\r', c == 0x7f:
				return Position{Line: line, Column: i + 1}, fmt.Sprintf("want text, have the control character %#x", c)
			}
			if depth > maxDepth {
				return Position{Line: line, Column: i + 1}, tooDeep
			}
		}
	}
	return Position{}, ""
}

// treeBuilder turns the parser's tree into ours.
type treeBuilder struct {
	file string
	errs Errors
}

func (t *treeBuilder) at(n ast.Node) Position {
	p := Position{File: t.file, Line: 1, Column: 1}
	if m, ok := n.(*ast.MappingNode); ok && !m.IsFlowStyle && len(m.Values) > 0 {
		n = m.Values[0].Key // a block's own token is its first colon
	}
	if m, ok := n.(*ast.MappingValueNode); ok {
		n = m.Key
	}
	if tk := n.GetToken(); tk != nil && tk.Position != nil {
		p.Line, p.Column = max(tk.Position.Line, 1), max(tk.Position.Column, 1)
	}
	return p
}

func (t *treeBuilder) fail(at Position, path, problem, do string) {
	t.errs = append(t.errs, &Error{Position: at, Path: path, Problem: problem, Do: do})
}

func (t *treeBuilder) build(n ast.Node, path string, depth int) *node {
	if n == nil {
		return &node{Position: Position{File: t.file, Line: 1, Column: 1}, path: path}
	}
	out := &node{Position: t.at(n), path: path, kind: unusable}
	if depth > maxDepth {
		t.fail(out.Position, path, tooDeep, "")
		return out
	}
	switch n := n.(type) {
	case *ast.NullNode:
		out.kind = null
	case *ast.BoolNode:
		out.kind, out.text = boolean, n.GetToken().Value
	case *ast.IntegerNode, *ast.FloatNode, *ast.InfinityNode, *ast.NanNode:
		out.kind, out.text = number, n.GetToken().Value
	case *ast.StringNode:
		out.kind, out.text = text, n.Value
	case *ast.LiteralNode:
		out.kind = text
		if n.Value != nil {
			out.text = n.Value.Value
		}
	case *ast.SequenceNode:
		out.kind = list
		for i, item := range n.Values {
			out.items = append(out.items, t.build(item, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
	case *ast.MappingNode:
		out.kind = mapping
		for _, v := range n.Values {
			t.pair(out, v, depth)
		}
	case *ast.MappingValueNode:
		out.kind = mapping
		t.pair(out, n, depth)
	case *ast.AnchorNode, *ast.AliasNode:
		t.fail(out.Position, path, "want a plain value, have an anchor or alias (& or *)",
			"write the value out where it is used; a name or pattern that begins with * goes in quotes")
	case *ast.TagNode:
		t.fail(out.Position, path, "want a plain value, have a tag (!)", "leave the tag out")
	default:
		t.fail(out.Position, path, "want a plain value, have "+n.Type().YAMLName(), "")
	}
	return out
}

// pair adds one key and its value to the map out.
func (t *treeBuilder) pair(out *node, v *ast.MappingValueNode, depth int) {
	var key ast.Node = v.Key
	if k, ok := key.(*ast.MappingKeyNode); ok && k.Value != nil {
		key = k.Value // the long form, "? key"
	}
	if _, ok := key.(*ast.MergeKeyNode); ok {
		t.fail(t.at(key), out.path, "want a plain key, have a merge (<<)", "write the keys out where they are used")
		return
	}
	k := t.build(key, out.path, depth+1)
	switch k.kind {
	case unusable:
		return
	case list, mapping:
		t.fail(k.Position, out.path, "want a plain key, have "+k.found(), "")
		return
	case null:
		k.text = "null"
	}
	k.path = joinPath(out.path, k.text)
	out.pairs = append(out.pairs, pair{k, t.build(v.Value, k.path, depth+1)})
}

// joinPath names a key below path; what grows too long is cut.
func joinPath(path, key string) string {
	if len(path) > 200 {
		return path
	}
	if runes := []rune(key); len(runes) > 60 {
		key = string(runes[:60]) + "…"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// found says what stands at n, for messages.
func (n *node) found() string {
	switch n.kind {
	case null:
		return "nothing"
	case boolean, number:
		return n.text
	case text:
		return "the text " + shown(n.text)
	case list:
		return "a list"
	case mapping:
		return "a map"
	}
	return "something else"
}
