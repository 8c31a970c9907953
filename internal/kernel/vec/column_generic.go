//go:build (!amd64 && !arm64) || noasm

package vec

func maxRows(x []float32, _ int, peak []float32) { maxRowsRef(x, peak) }

func expRows(x []float32, _ int, shift, sum []float32) { expRowsRef(x, shift, sum) }

func mulRows(x []float32, _ int, v []float32) { mulRowsRef(x, v) }
