package main

import (
	"fmt"
	"io"

	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/terminal"
)

// printAmp explains what mixed precision has made of a model: a line for each product, and one for
// all other nodes of an operator of which the same can be said.
func printAmp(w io.Writer, r *pass.AmpReport) {
	if r == nil {
		return
	}
	products, chosen := productsOf(r)
	k := &r.Casts
	fmt.Fprintf(w, "precision %s: %d of %d products multiply in bf16\n", r.Precision, chosen,
		products)
	fmt.Fprintf(w,
		"casts: %d inserted; %d folded into constants, %d fused into kernels, %d eliminated, %d "+
			"left\n", k.Inserted, k.Folded, k.Fused, k.Eliminated, k.Left())
	fmt.Fprintf(w, "values used in bf16 only: %d, of %s in fp32\n", r.NarrowValues,
		terminal.Size(r.NarrowBytes))
	for i := range r.Nodes {
		if c := &r.Nodes[i]; c.List == pass.AmpAllow {
			fmt.Fprintf(w, "%s  %-5s  %s %q: %s%s\n", ampArithmetic(c), c.List, c.Operator, c.Node,
				c.Why, castWords(c.Casts))
		}
	}
	printAmpRest(w, r)
}

// productsOf counts the products, and how many were chosen to multiply in fewer bits.
func productsOf(r *pass.AmpReport) (products, chosen int) {
	for _, c := range r.Nodes {
		if c.List == pass.AmpAllow {
			products++
		}
		if c.Chosen {
			chosen++
		}
	}
	return products, chosen
}

func ampArithmetic(c *pass.AmpChoice) string {
	switch {
	case c.Chosen:
		return "bf16"
	case c.Narrow:
		return "same"
	}
	return "fp32"
}

// castWords names the fates of a product's casts: operands first, then the result.
func castWords(list []pass.AmpCast) string {
	text := ""
	for i, c := range list {
		if text += ", "; i == 0 {
			text = "; casts "
		}
		text += string(c.Fate)
	}
	return text
}

// printAmpRest groups the nodes that are no products.
func printAmpRest(w io.Writer, r *pass.AmpReport) {
	type group struct {
		arithmetic, operator, why string
		list                      pass.AmpList
	}
	count := map[group]int{}
	var order []group
	for i := range r.Nodes {
		c := &r.Nodes[i]
		if c.List == pass.AmpAllow {
			continue
		}
		g := group{ampArithmetic(c), c.Operator, c.Why, c.List}
		if count[g] == 0 {
			order = append(order, g)
		}
		count[g]++
	}
	for _, g := range order {
		fmt.Fprintf(w, "%s  %-5s  %d x %s: %s\n", g.arithmetic, g.list, count[g], g.operator, g.why)
	}
}
