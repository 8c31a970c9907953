package oip

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
)

// two is a request for two inputs, of which the second has a bool.
func two(more string) string {
	return `{"id":"a"` + more + `,"inputs":[{"name":"x","datatype":"FP32","shape":[2],` +
		`"parameters":{"binary_data_size":8}},{"name":"y","datatype":"BOOL","shape":[1],` +
		`"parameters":{"binary_data_size":1}}],"parameters":{"k":1}}`
}

// TestMemoIsDecode: a Memo gives what Decode gives, whatever came before.
func TestMemoIsDecode(t *testing.T) {
	text := `{"inputs":[{"name":"s","datatype":"BYTES","shape":[1],"parameters":` +
		`{"binary_data_size":5}}]}`
	inline := `{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"data":[1,2]},{"name":"y",` +
		`"datatype":"BOOL","shape":[1],"parameters":{"binary_data_size":1}}]}`
	lent := `{"inputs":[{"name":"x","datatype":"FP32","shape":[2],"parameters":` +
		`{"shared_memory_region":"r","shared_memory_byte_size":8}},{"name":"y","datatype":"BOOL",` +
		`"shape":[1],"parameters":{"binary_data_size":1}}]}`
	long := two(`,"parameters":{"k":"` + strings.Repeat("a", mostRemembered) + `"}`)
	var m Memo
	for i, c := range []struct{ json, data string }{
		{two(""), "12345678\x01"}, {two(""), "abcdefgh\x00"}, {two(""), "abcdefgh\x02"},
		{two(""), "abcdefgh\x01"}, {two(""), "abcdefgh"}, {two(""), "abcdefgh\x00\x00"},
		{two(" "), "12345678\x01"}, {two(" "), "87654321\x00"}, {text, "\x01\x00\x00\x00a"},
		{text, "\x01\x00\x00\x00b"}, {text, "\x02\x00\x00\x00b"}, {text, "\x00\x00\x00\x00b"},
		{inline, "\x01"}, {inline, "\x00"}, {lent, "\x01"}, {lent, "\x00"},
		{`{"inputs":[]}`, ""}, {`{"inputs":[]}`, ""}, {"{", "a"}, {"{", "a"},
		{strings.Replace(long, `,"parameters":{"k":1}`, "", 1), "12345678\x01"},
		{strings.Replace(long, `,"parameters":{"k":1}`, "", 1), "12345678\x00"},
		{two(""), "12345678\x01"},
	} {
		body := []byte(c.json + c.data)
		for _, header := range []int{len(c.json), len(c.json), len(body), len(body) + 1, -1} {
			want, errWant := Decode(body, header, nil)
			got, err := m.Decode(body, header, nil)
			if fmt.Sprint(err) != fmt.Sprint(errWant) || !reflect.DeepEqual(got, want) {
				t.Errorf("%d, %d: %+v, %v, and Decode %+v, %v", i, header, got, err, want, errWant)
			}
		}
	}
}

// TestMemoKeepsNothing: what is remembered is not the client's memory, and requests do not share
// what they may differ in.
func TestMemoKeepsNothing(t *testing.T) {
	var m Memo
	header := len(two(""))
	body := []byte(two("") + "12345678\x01")
	first, err := m.Decode(body, header, nil)
	if err != nil {
		t.Fatal(err)
	}
	again := []byte(two("") + "abcdefgh\x00")
	clear(body)
	second, err := m.Decode(again, header, nil)
	if err != nil {
		t.Fatal(err)
	}
	if string(second.Inputs[0].Tensor.Data) != "abcdefgh" || second.Inputs[0].Name != "x" ||
		first.Inputs[0].Tensor.Data[0] != 0 {
		t.Errorf("%+v after %+v", second, first)
	}
}

// TestMemoRemembers: a request like the one before is not read again.
func TestMemoRemembers(t *testing.T) {
	var m Memo
	header, body := len(two("")), []byte(two("")+"12345678\x01")
	ask := func(decode func([]byte, int, Holder) (*Request, error)) float64 {
		return testing.AllocsPerRun(100, func() {
			if _, err := decode(body, header, nil); err != nil {
				t.Fatal(err)
			}
		})
	}
	if n, without := ask(m.Decode), ask(Decode); n > 5 || n > without/2 {
		t.Errorf("%v allocations, and %v without it", n, without)
	}
}
