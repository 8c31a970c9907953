// Package echarts carries Apache ECharts 6.1.0 (https://echarts.apache.org, Apache-2.0, as its
// authors publish it), so that the pages that weir writes need nothing from a network.
//
// Meet first: [Script], the text for a script element; it defines the object echarts.
//
// Concurrency: a constant in all but name. What it refuses: nothing, it only carries.
package echarts

import _ "embed" // for Script

// Script is the library.
//
//go:embed echarts.min.js
var Script string
