package main

import (
	"errors"

	"github.com/weirgpu/weir/share"
)

// byteSize is a flag whose value is a size above 0, such as 2GiB. It implements pflag.Value.
type byteSize share.Bytes

func (b *byteSize) String() string {
	if *b == 0 {
		return ""
	}
	return share.Bytes(*b).String()
}

func (b *byteSize) Set(text string) error {
	n, err := share.ParseBytes(text)
	if err == nil && n <= 0 {
		err = errors.New("must be above 0")
	}
	*b = byteSize(n)
	return err
}

func (b *byteSize) Type() string { return "bytes" }
