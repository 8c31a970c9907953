package repo

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirgpu/weir/server/oip"
)

// This file reads the text format of protocol buffers
// (protobuf.dev/reference/protobuf/textformat-spec) into structs whose fields are named by their
// tags json, as encoding/json has them. A tag text says what Go's types do not: "word" is the name
// of an enumeration, and i32, u32 and u64 bound a whole number. A field of type oip.Unread is read
// and left. google.golang.org/protobuf/encoding/prototext reads generated messages only, and with
// their code is ten times as large as this.

// mostDepth bounds messages in messages.
const mostDepth = 32

// textReader is a text that is being read.
type textReader struct {
	text   string
	at     int
	line   int
	token  string // the one at hand, "" at the end
	of     int    // its line
	depth  int
	passed bool // something was passed over, of which the brackets alone are held
}

// readText reads a text into a struct. The error says the line.
func readText(text string, to any) error {
	r := &textReader{text: text, line: 1}
	return r.read(to)
}

// read reads the whole text.
func (r *textReader) read(to any) error {
	if !utf8.ValidString(r.text) {
		return errors.New("is no UTF-8")
	}
	if err := r.next(); err != nil {
		return err
	}
	return r.message(reflect.ValueOf(to).Elem(), "")
}

// fail is an error at the token at hand.
func (r *textReader) fail(format string, args ...any) error {
	return fmt.Errorf("line %d: %s", r.of, fmt.Sprintf(format, args...))
}

// next goes to the next token: a word or number, a quoted string, or one other character.
func (r *textReader) next() error {
	r.space()
	r.of = r.line
	if r.at == len(r.text) {
		r.token = ""
		return nil
	}
	from := r.at
	switch c := r.text[r.at]; {
	case inWord(c):
		// a point and the sign of an exponent are of a number
		for r.at < len(r.text) && (inWord(r.text[r.at]) || r.text[r.at] == '.' ||
			strings.IndexByte("+-", r.text[r.at]) >= 0 && inNumber(r.text[from:r.at])) {
			r.at++
		}
	case c == '"' || c == '\'':
		for r.at++; r.at < len(r.text) && r.text[r.at] != c; r.at++ {
			if r.text[r.at] == '\\' {
				r.at++
			}
			if r.at < len(r.text) && (r.text[r.at] == '\n' || r.text[r.at] == 0) {
				return r.fail("the string has no end in its line")
			}
		}
		if r.at >= len(r.text) {
			return r.fail("the string has no end")
		}
		r.at++
	default:
		r.at++
	}
	r.token = r.text[from:r.at]
	return nil
}

// space passes over spaces and comments.
func (r *textReader) space() {
	for r.at < len(r.text) {
		switch c := r.text[r.at]; c {
		case '\n':
			r.line++
		case ' ', '\t', '\r':
		case '#':
			if end := strings.IndexByte(r.text[r.at:], '\n'); end >= 0 {
				r.at += end
				continue
			}
			r.at = len(r.text)
			continue
		default:
			return
		}
		r.at++
	}
}

// inWord reports whether a character is one of names and numbers.
func inWord(c byte) bool {
	return c == '_' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z'
}

// inNumber reports whether a sign may follow the begin of a number: after its exponent.
func inNumber(s string) bool {
	return s[0] >= '0' && s[0] <= '9' && !strings.HasPrefix(strings.ToLower(s), "0x") &&
		strings.HasSuffix(strings.ToLower(s), "e")
}

// take goes on if the token at hand is that one.
func (r *textReader) take(token string) (bool, error) {
	if r.token != token {
		return false, nil
	}
	return true, r.next()
}

// closers are the ends of messages and lists by their begins.
var closers = map[string]string{"{": "}", "<": ">"}

// message reads the fields of a message up to its end, which "" says is that of the text.
func (r *textReader) message(to reflect.Value, end string) error {
	seen := map[string]bool{}
	for r.token != end {
		name := r.token
		if name == "" || !inWord(name[0]) {
			return r.fail("%.20q: expected the name of a key", name)
		}
		f, kind := field(to, name)
		if !f.IsValid() {
			return r.fail("there is no key %.60q here", name)
		}
		many := f.Kind() == reflect.Slice || f.Kind() == reflect.Map || f.Type() == skipped
		if seen[name] && !many {
			return r.fail("%s is given twice", name)
		}
		seen[name] = true
		if err := r.next(); err != nil {
			return err
		}
		if err := r.field(f, name, kind); err != nil {
			return err
		}
		if sep, err := r.take(","); err != nil {
			return err
		} else if !sep {
			if _, err := r.take(";"); err != nil {
				return err
			}
		}
	}
	return r.next()
}

// field finds a field of a struct by its key.
func field(of reflect.Value, name string) (f reflect.Value, kind string) {
	for i := range of.NumField() {
		tag := of.Type().Field(i).Tag
		if key, _, _ := strings.Cut(tag.Get("json"), ","); key == name {
			return of.Field(i), tag.Get("text")
		}
	}
	return f, ""
}

// field reads what stands behind a key.
func (r *textReader) field(to reflect.Value, name, kind string) error {
	colon, err := r.take(":")
	if err != nil {
		return err
	}
	if r.token != "[" || to.Type() == skipped {
		return r.value(to, name, kind, colon)
	}
	if to.Kind() != reflect.Slice && to.Kind() != reflect.Map {
		return r.fail("%s takes no list", name)
	}
	if err := r.next(); err != nil {
		return err
	}
	for first := true; ; first = false {
		end, err := r.take("]")
		if err != nil || end && first {
			return err
		}
		if !first {
			if end {
				return nil
			}
			if comma, err := r.take(","); err != nil {
				return err
			} else if !comma {
				return r.fail("%.20q: expected a comma or the end of the list %s", r.token, name)
			}
		}
		if err := r.value(to, name, kind, colon); err != nil {
			return err
		}
	}
}

// value reads one value: a message may stand without a colon, others not.
func (r *textReader) value(to reflect.Value, name, kind string, colon bool) error {
	switch to.Kind() {
	case reflect.Pointer:
		if to.Type() == skipped {
			to.Set(reflect.ValueOf(&oip.Unread{}))
			return r.skip(name)
		}
		to.Set(reflect.New(to.Type().Elem()))
		return r.value(to.Elem(), name, kind, colon)
	case reflect.Slice:
		one := reflect.New(to.Type().Elem()).Elem()
		if err := r.value(one, name, kind, colon); err != nil {
			return err
		}
		to.Set(reflect.Append(to, one))
		return nil
	case reflect.Struct, reflect.Map:
		return r.block(to, name)
	}
	if !colon {
		return r.fail("%s: expected a colon", name)
	}
	return r.scalar(to, name, kind)
}

// block reads a message in brackets.
func (r *textReader) block(to reflect.Value, name string) error {
	end := closers[r.token]
	if end == "" {
		return r.fail("%.20q: expected { and the keys of %s", r.token, name)
	}
	if r.depth++; r.depth > mostDepth {
		return r.fail("more than %d messages in each other", mostDepth)
	}
	defer func() { r.depth-- }()
	if err := r.next(); err != nil {
		return err
	}
	if to.Kind() != reflect.Map {
		return r.message(to, end)
	}
	return r.entry(to, end)
}

// entry reads an entry of a map, which is a message with a key and a value.
func (r *textReader) entry(to reflect.Value, end string) error {
	key := reflect.New(to.Type().Key()).Elem()
	value := reflect.New(to.Type().Elem()).Elem()
	seen := map[string]bool{}
	for r.token != end {
		name := r.token
		if seen[name] || name != "key" && name != "value" {
			return r.fail("%.20q: expected one key and one value", name)
		}
		seen[name] = true
		part := key
		if name == "value" {
			part = value
		}
		if err := r.next(); err != nil {
			return err
		}
		if err := r.field(part, name, ""); err != nil {
			return err
		}
		if _, err := r.take(","); err != nil {
			return err
		}
	}
	if to.IsNil() {
		to.Set(reflect.MakeMap(to.Type()))
	}
	to.SetMapIndex(key, value)
	return r.next()
}

// scalar reads a string, word, truth or number.
func (r *textReader) scalar(to reflect.Value, name, kind string) error {
	switch {
	case to.Kind() == reflect.String && kind == "word":
		if r.token == "" || !inWord(r.token[0]) || r.token[0] <= '9' {
			return r.fail("%s is %.40q: expected a name without quotes", name, r.token)
		}
		to.SetString(r.token)
		return r.next()
	case to.Kind() == reflect.String:
		text, err := r.quoted(name)
		to.SetString(text)
		return err
	case to.Kind() == reflect.Bool:
		switch r.token {
		case "true", "True", "t", "1":
			to.SetBool(true)
		case "false", "False", "f", "0":
		default:
			return r.fail("%s is %.40q: expected true or false", name, r.token)
		}
		return r.next()
	}
	return r.number(to, name, kind)
}

// bounds are those of whole numbers.
var bounds = map[string][2]int64{"": {math.MinInt64, math.MaxInt64},
	"i32": {math.MinInt32, math.MaxInt32}, "u32": {0, math.MaxUint32}, "u64": {0, math.MaxInt64}}

// number reads a number.
func (r *textReader) number(to reflect.Value, name, kind string) error {
	minus, err := r.take("-")
	if err != nil {
		return err
	}
	text := r.token
	if minus {
		text = "-" + text
	}
	if to.Kind() == reflect.Float64 {
		n, err := strconv.ParseFloat(strings.TrimRight(text, "fF"), 64)
		if err != nil || math.IsInf(n, 0) || math.IsNaN(n) || strings.ContainsAny(text, "xX_") {
			return r.fail("%s is %.40q: expected a number", name, text)
		}
		to.SetFloat(n)
		return r.next()
	}
	n, err := strconv.ParseInt(text, 0, 64)
	b := bounds[kind]
	if err != nil || n < b[0] || n > b[1] || strings.ContainsAny(text, "_oO") ||
		strings.HasPrefix(strings.TrimPrefix(text, "-"), "0b") ||
		strings.HasPrefix(strings.TrimPrefix(text, "-"), "0B") {
		return r.fail("%s is %.40q: expected a whole number from %d to %d", name, text, b[0], b[1])
	}
	to.SetInt(n)
	return r.next()
}

// quoted reads a string, of one or several quoted pieces.
func (r *textReader) quoted(name string) (string, error) {
	var all strings.Builder
	for first := true; ; first = false {
		if r.token == "" || r.token[0] != '"' && r.token[0] != '\'' {
			if first {
				return "", r.fail("%s is %.40q: expected a string in quotes", name, r.token)
			}
			return all.String(), nil
		}
		piece, err := unquote(r.token)
		if err != nil {
			return "", r.fail("%s: %.60s: %v", name, r.token, err)
		}
		all.WriteString(piece)
		if err := r.next(); err != nil {
			return "", err
		}
	}
}

// unquote resolves the escapes of a string, which are those of Go, with ? and either quote.
func unquote(token string) (string, error) {
	quote, text := token[0], token[1:len(token)-1]
	var all strings.Builder
	for text != "" {
		if len(text) > 1 && text[0] == '\\' && strings.IndexByte(`?'"`, text[1]) >= 0 {
			all.WriteByte(text[1])
			text = text[2:]
			continue
		}
		c, wide, rest, err := strconv.UnquoteChar(text, quote)
		if err != nil {
			return "", errors.New("an escape that there is not")
		}
		if wide {
			all.WriteRune(c)
		} else {
			all.WriteByte(byte(c))
		}
		text = rest
	}
	if !utf8.ValidString(all.String()) {
		return "", errors.New("it is no UTF-8")
	}
	return all.String(), nil
}

// skipped is the type of fields that are passed over.
var skipped = reflect.TypeFor[*oip.Unread]()

// skip passes over a value, whatever it is.
func (r *textReader) skip(name string) error {
	r.passed = true
	ends := []string{}
	for {
		if _, err := r.take("-"); err != nil {
			return err
		}
		switch r.token {
		case "":
			return r.fail("%s has no end", name)
		case "{", "<", "[":
			ends = append(ends, map[string]string{"{": "}", "<": ">", "[": "]"}[r.token])
			if len(ends) > mostDepth {
				return r.fail("more than %d messages in each other", mostDepth)
			}
		case "}", ">", "]":
			if len(ends) == 0 || ends[len(ends)-1] != r.token {
				return r.fail("%q ends nothing", r.token)
			}
			ends = ends[:len(ends)-1]
		}
		quoted := r.token[0] == '"' || r.token[0] == '\''
		if err := r.next(); err != nil {
			return err
		}
		if more := r.token != "" && (r.token[0] == '"' || r.token[0] == '\''); len(ends) == 0 &&
			!(quoted && more) {
			return nil
		}
	}
}
