package repo

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"reflect"
	"strconv"
	"strings"
	"unicode"

	"github.com/weirgpu/weir/server/oip"
)

// ParseJSON reads a configuration in the JSON form of protocol buffers
// (protobuf.dev/programming-guides/json), as clients send it beside a request to load: names are
// in either spelling, whole numbers may be strings, and null is as if the key were not there.
func ParseJSON(text string) (*oip.Config, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var given any
	if err := d.Decode(&given); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, errors.New("there is more behind the object")
	}
	if _, is := given.(map[string]any); !is {
		return nil, errors.New("it is no object of JSON")
	}
	c := &oip.Config{}
	if err := fromJSON(reflect.ValueOf(c).Elem(), given, "config", ""); err != nil {
		return nil, err
	}
	return c, CheckConfig(c)
}

// fromJSON puts a value of JSON into one of a configuration, of which name and kind are those of
// its field.
func fromJSON(to reflect.Value, given any, name, kind string) error {
	if given == nil {
		return nil
	}
	switch to.Kind() {
	case reflect.Pointer:
		to.Set(reflect.New(to.Type().Elem()))
		if to.Type() == skipped {
			return nil
		}
		return fromJSON(to.Elem(), given, name, kind)
	case reflect.Struct:
		return structFromJSON(to, given, name)
	case reflect.Map:
		all, is := given.(map[string]any)
		if !is {
			return wrongJSON(name, given, "an object")
		}
		to.Set(reflect.MakeMap(to.Type()))
		for key, v := range all {
			one := reflect.New(to.Type().Elem()).Elem()
			if err := fromJSON(one, v, key, kind); err != nil {
				return err
			}
			to.SetMapIndex(reflect.ValueOf(key), one)
		}
		return nil
	case reflect.Slice:
		all, is := given.([]any)
		if !is {
			return wrongJSON(name, given, "a list")
		}
		to.Set(reflect.MakeSlice(to.Type(), len(all), len(all)))
		for i, v := range all {
			if err := fromJSON(to.Index(i), v, name, kind); err != nil {
				return err
			}
		}
		return nil
	}
	return scalarFromJSON(to, given, name, kind)
}

// structFromJSON puts the members of an object into the fields of a struct.
func structFromJSON(to reflect.Value, given any, name string) error {
	all, is := given.(map[string]any)
	if !is {
		return wrongJSON(name, given, "an object")
	}
	for key, v := range all {
		f, kind := field(to, key)
		if !f.IsValid() {
			f, kind = field(to, snake(key))
		}
		if !f.IsValid() {
			return fmt.Errorf("there is no key %.60q in %.60s", key, name)
		}
		if err := fromJSON(f, v, key, kind); err != nil {
			return err
		}
	}
	return nil
}

// snake is a name as the definition of messages spells it, "maxBatchSize" as "max_batch_size".
func snake(name string) string {
	var b strings.Builder
	for _, c := range name {
		if unicode.IsUpper(c) {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(c))
	}
	return b.String()
}

// scalarFromJSON puts a string, truth or number into a field.
func scalarFromJSON(to reflect.Value, given any, name, kind string) error {
	text, isText := given.(string)
	number, isNumber := given.(json.Number)
	if isNumber {
		text = number.String()
	}
	switch to.Kind() {
	case reflect.String:
		if !isText {
			return wrongJSON(name, given, "a string")
		}
		to.SetString(text)
		return nil
	case reflect.Bool:
		truth, is := given.(bool)
		if !is {
			return wrongJSON(name, given, "true or false")
		}
		to.SetBool(truth)
		return nil
	case reflect.Float64:
		f, err := strconv.ParseFloat(text, 64)
		if err != nil || math.IsInf(f, 0) || math.IsNaN(f) {
			return wrongJSON(name, given, "a number")
		}
		to.SetFloat(f)
		return nil
	}
	n, err := strconv.ParseInt(text, 10, 64)
	b := bounds[kind]
	if err != nil || n < b[0] || n > b[1] {
		return wrongJSON(name, given, fmt.Sprintf("a whole number from %d to %d", b[0], b[1]))
	}
	to.SetInt(n)
	return nil
}

func wrongJSON(name string, given any, want string) error {
	return fmt.Errorf("%.60s is %.60s: expected %s", name, fmt.Sprint(given), want)
}
