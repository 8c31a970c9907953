package oip

import (
	"bytes"

	"github.com/weirgpu/weir/tensor"
)

// Memo decodes the requests of one client, which are alike: it reads JSON that is the same as
// before, with other binary data behind it, once. The zero value remembers nothing. It is for one
// goroutine.
type Memo struct {
	json   []byte
	of     Request
	types  []tensor.DType
	sizes  []int
	behind int // bytes of binary data
}

// mostRemembered bounds the bytes of JSON that a Memo remembers.
const mostRemembered = 1 << 10

// Decode is the function [Decode]. What requests have in common beside their data is theirs
// together, and must not be written.
func (m *Memo) Decode(body []byte, header int, hold Holder) (*Request, error) {
	if header < 0 || header > len(body) || len(m.json) == 0 ||
		!bytes.Equal(m.json, body[:header]) || len(body)-header != m.behind {
		r, err := Decode(body, header, hold)
		if err == nil {
			m.remember(body, header, r)
		}
		return r, err
	}
	both := &struct {
		Request
		first [1]Input
	}{Request: m.of}
	r, rest := &both.Request, body[header:]
	r.Inputs = append(both.first[:0], m.of.Inputs...)
	for i := range r.Inputs {
		in, n := &r.Inputs[i], m.sizes[i]
		t, err := FromBytes(m.types[i], m.of.Inputs[i].Tensor.Shape, rest[:n:n], hold)
		if err != nil {
			return Decode(body, header, hold) // which says it in full
		}
		in.Tensor, rest = t, rest[n:]
	}
	return r, nil
}

// remember notes a request all of whose inputs are binary data.
func (m *Memo) remember(body []byte, header int, r *Request) {
	m.json = m.json[:0]
	if header > mostRemembered || header == len(body) {
		return
	}
	sizes, types := m.sizes[:0], m.types[:0]
	behind := 0
	for i := range r.Inputs {
		in := &r.Inputs[i]
		n := sizeOf(in.Tensor)
		if in.Region != nil {
			return
		}
		sizes, types, behind = append(sizes, n), append(types, in.Tensor.DType), behind+n
	}
	if behind != len(body)-header { // some are in the JSON
		return
	}
	m.of, m.sizes, m.types, m.behind = *r, sizes, types, behind
	m.of.Inputs = make([]Input, len(r.Inputs))
	for i, in := range r.Inputs {
		in.Tensor = &tensor.Tensor{DType: in.Tensor.DType, Shape: in.Tensor.Shape}
		m.of.Inputs[i] = in
	}
	m.json = append(m.json, body[:header]...)
}
