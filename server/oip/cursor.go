package oip

import (
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// cursor reads JSON (RFC 8259) from the front of b on. After an error it is not read further.
type cursor struct {
	b     []byte
	at    int
	depth int
	last  number // that was read
}

// wrong is an error at the place that the cursor has reached.
func (c *cursor) wrong(format string, args ...any) error {
	return fmt.Errorf("%w: JSON, byte %d: %s", ErrRequest, c.at, fmt.Sprintf(format, args...))
}

// peek skips white space and returns the byte that follows; 0 at the end.
func (c *cursor) peek() byte {
	for ; c.at < len(c.b); c.at++ {
		switch b := c.b[c.at]; b {
		case ' ', '\t', '\n', '\r':
		default:
			return b
		}
	}
	return 0
}

// take reads the byte want, after white space.
func (c *cursor) take(want byte) error {
	if got := c.peek(); got != want {
		if c.at == len(c.b) {
			return c.wrong("ends where %q should follow", want)
		}
		return c.wrong("%q where %q should follow", got, want)
	}
	c.at++
	return nil
}

// end says whether nothing but white space is left.
func (c *cursor) end() error {
	if c.peek(); c.at < len(c.b) {
		return c.wrong("%q after the end of the request", c.b[c.at])
	}
	return nil
}

// object reads an object; field reads the value of each key.
func (c *cursor) object(field func(key string) error) error {
	return c.list('{', '}', func() error {
		key, err := c.text()
		if err != nil {
			return err
		}
		if err := c.take(':'); err != nil {
			return err
		}
		return field(key)
	})
}

// array reads an array; element reads each value.
func (c *cursor) array(element func() error) error { return c.list('[', ']', element) }

// list reads what stands between two brackets, separated by commas.
func (c *cursor) list(open, shut byte, one func() error) error {
	if err := c.take(open); err != nil {
		return err
	}
	if c.depth++; c.depth > MaxDepth {
		return c.wrong("nests deeper than %d", MaxDepth)
	}
	defer func() { c.depth-- }()
	if c.peek() == shut {
		c.at++
		return nil
	}
	for {
		if err := one(); err != nil {
			return err
		}
		switch c.peek() {
		case ',':
			c.at++
		case shut:
			c.at++
			return nil
		default:
			return c.take(shut)
		}
	}
}

// words are what requests say most often, which takes no memory then.
var words = func() map[string]string {
	m := map[string]string{}
	for _, w := range []string{"id", "inputs", "outputs", "name", "shape", "datatype", "data",
		"parameters", "binary_data", "binary_data_output", "binary_data_size", "classification",
		"timeout", "priority"} {
		m[w] = w
	}
	for _, w := range datatypes {
		m[w] = w
	}
	return m
}()

// known is a string of its own that says the same as b.
func known(b []byte) string {
	if w, ok := words[string(b)]; ok {
		return w
	}
	return string(b)
}

// text reads a string.
func (c *cursor) text() (string, error) {
	if err := c.take('"'); err != nil {
		return "", err
	}
	begin, plain := c.at, true
	for ; c.at < len(c.b); c.at++ {
		switch b := c.b[c.at]; {
		case b == '"':
			whole := c.b[begin-1 : c.at+1]
			c.at++
			return c.unquote(whole, plain)
		case b == '\\':
			plain = false
			c.at++ // whatever follows is part of the string
		case b < ' ':
			return "", c.wrong("a control character in a string")
		}
	}
	c.at = len(c.b)
	return "", c.wrong("ends within a string")
}

// unquote returns what a string says; plain tells that it has no escapes.
func (c *cursor) unquote(whole []byte, plain bool) (string, error) {
	if !utf8.Valid(whole) {
		return "", c.wrong("a string that is not UTF-8: send it as binary data")
	}
	if plain {
		return known(whole[1 : len(whole)-1]), nil
	}
	var s string
	if err := json.Unmarshal(whole, &s); err != nil {
		return "", c.wrong("%v", err)
	}
	return s, nil
}

// word reads one of JSON's three words.
func (c *cursor) word(w string) error {
	if c.peek(); len(c.b)-c.at < len(w) || string(c.b[c.at:c.at+len(w)]) != w {
		return c.wrong("%s should follow", w)
	}
	c.at += len(w)
	return nil
}

// boolean reads true or false.
func (c *cursor) boolean() (bool, error) {
	if c.peek() == 't' {
		return true, c.word("true")
	}
	return false, c.word("false")
}

// skip reads any value and forgets it.
func (c *cursor) skip() error {
	switch c.peek() {
	case '{':
		return c.object(func(string) error { return c.skip() })
	case '[':
		return c.array(c.skip)
	case '"':
		_, err := c.text()
		return err
	case 't', 'f':
		_, err := c.boolean()
		return err
	case 'n':
		return c.word("null")
	}
	_, err := c.number()
	return err
}
