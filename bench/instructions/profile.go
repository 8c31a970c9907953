package main

import (
	"cmp"
	"debug/elf"
	"slices"
	"sort"
)

// share is the part of a function in the instructions of the last run.
type share struct {
	Name         string  `json:"name"`
	Instructions uint64  `json:"instructions"`
	Share        float64 `json:"share"`
}

// functions adds up blocks by the functions of a program at fixed addresses, and returns the n with
// the most instructions, the most first.
func functions(program string, blocks []block, n int) ([]share, error) {
	f, err := elf.Open(program)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	symbols, err := f.Symbols()
	if err != nil {
		return nil, err
	}
	symbols = slices.DeleteFunc(symbols,
		func(s elf.Symbol) bool { return elf.ST_TYPE(s.Info) != elf.STT_FUNC })
	slices.SortFunc(symbols, func(a, b elf.Symbol) int { return cmp.Compare(a.Value, b.Value) })
	return attribute(symbols, blocks, n), nil
}

// attribute is functions on symbols in the order of their addresses.
func attribute(symbols []elf.Symbol, blocks []block, n int) []share {
	by := map[string]uint64{}
	var sum uint64
	for _, b := range blocks {
		i := sort.Search(len(symbols), func(i int) bool { return symbols[i].Value > b.address }) - 1
		name := "elsewhere"
		if i >= 0 && b.address < symbols[i].Value+symbols[i].Size {
			name = symbols[i].Name
		}
		by[name] += b.length * b.runs
		sum += b.length * b.runs
	}
	var shares []share
	for name, k := range by {
		shares = append(shares, share{name, k, float64(k) / float64(sum)})
	}
	slices.SortFunc(shares, func(a, b share) int {
		return cmp.Or(cmp.Compare(b.Instructions, a.Instructions), cmp.Compare(a.Name, b.Name))
	})
	return shares[:min(n, len(shares))]
}
