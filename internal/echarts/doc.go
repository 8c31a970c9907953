// Package echarts carries Apache ECharts 6.1.0 (https://echarts.apache.org, Apache-2.0, as its
// authors publish it), so that the pages that weir writes need nothing from a network. It is kept
// compressed by gzip -9n: the library is a twentieth of what the binary may have.
//
// Meet first: [Script], the text for a script element; it defines the object echarts.
//
// Concurrency: Script may be called from any goroutine. What it refuses: nothing, it only carries.
package echarts

import (
	"bytes"
	"compress/gzip"
	_ "embed" // for the library
	"io"
	"sync"
)

//go:embed echarts.min.js.gz
var compressed []byte

// Script returns the library.
var Script = sync.OnceValue(func() string {
	r, err := gzip.NewReader(bytes.NewReader(compressed))
	if err != nil {
		panic(err) // the file in this folder is damaged
	}
	text, err := io.ReadAll(r)
	if err != nil {
		panic(err)
	}
	return string(text)
})
