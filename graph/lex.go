package graph

import (
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirgpu/weir/internal/op"
)

type tokenKind uint8

const (
	endToken    tokenKind = iota
	wordToken             // names, numbers, keywords
	quotedToken           // text is what the quotes hold
	punctToken
)

// token is one piece of the text form.
type token struct {
	kind      tokenKind
	text      string
	line, col int
}

func (t token) is(punct string) bool { return t.kind == punctToken && t.text == punct }

func (t token) isWord(word string) bool { return t.kind == wordToken && t.text == word }

func (t token) String() string {
	switch t.kind {
	case endToken:
		return "the end"
	case quotedToken:
		if len(t.text) > 40 {
			return "a string"
		}
		return strconv.Quote(t.text)
	}
	return "'" + t.text + "'"
}

// lexer cuts text into tokens; # starts a comment that ends with the line.
type lexer struct {
	src       string
	pos       int
	line, col int
}

// syntaxError is an error at a place of the text.
func syntaxError(t token, format string, args ...any) error {
	return fmt.Errorf("%d:%d: %w: %s", t.line, t.col, ErrInvalid, fmt.Sprintf(format, args...))
}

func (l *lexer) advance(n int) {
	for _, r := range l.src[l.pos : l.pos+n] {
		if l.col++; r == '\n' {
			l.line, l.col = l.line+1, 1
		}
	}
	l.pos += n
}

func (l *lexer) blank() {
	for l.pos < len(l.src) {
		switch rest := l.src[l.pos:]; rest[0] {
		case ' ', '\t', '\r', '\n':
			l.advance(1)
		case '#':
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				end = len(rest)
			}
			l.advance(end)
		default:
			return
		}
	}
}

// unquotePrefix returns the string that rest begins with and the length of its quoted form.
func unquotePrefix(t token, rest string) (text string, n int, err error) {
	q, err := strconv.QuotedPrefix(rest)
	if err != nil {
		return "", 0, syntaxError(t, "a string does not end")
	}
	if text, err = strconv.Unquote(q); err != nil {
		return "", 0, syntaxError(t, "a string has an escape that does not exist")
	}
	return text, len(q), nil
}

func (l *lexer) next() (token, error) {
	l.blank()
	t := token{line: l.line, col: l.col}
	rest := l.src[l.pos:]
	if rest == "" {
		return t, nil
	}
	n := 0
	for n < len(rest) && isWord(rest[n]) {
		n++
	}
	switch {
	case n > 0:
		t.kind, t.text = wordToken, rest[:n]
	case rest[0] == '"':
		var err error
		if t.text, n, err = unquotePrefix(t, rest); err != nil {
			return t, err
		}
		t.kind = quotedToken
	case strings.HasPrefix(rest, op.TimesSign):
		t.kind, t.text, n = punctToken, op.TimesSign, len(op.TimesSign)
	case strings.IndexByte("%:@(){}[],=|?", rest[0]) >= 0:
		t.kind, t.text, n = punctToken, rest[:1], 1
	default:
		r, _ := utf8.DecodeRuneInString(rest)
		return t, syntaxError(t, "character %q has no place here", r)
	}
	l.advance(n)
	return t, nil
}
