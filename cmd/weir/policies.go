package main

import (
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/share/policy"
)

// policyInfo is one policy as the command policies shows it.
type policyInfo struct {
	Name       string         `json:"name"`
	Source     string         `json:"source"`
	What       string         `json:"what"`
	Needs      []string       `json:"needs"` // as share.Can.Names
	Honours    policy.Honours `json:"honours"`
	Parameters []policy.Param `json:"parameters"`
}

func describePolicy(r policy.Row) policyInfo {
	return policyInfo{Name: r.Name, Source: r.Source, What: r.Summary,
		Needs: append([]string{}, r.Needs.Names()...), Honours: r.Honours,
		Parameters: append([]policy.Param{}, r.Params()...)}
}

// policyList is what weir policies prints.
type policyList struct {
	Policies []policyInfo `json:"policies"`
}

func newPolicies() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "policies [NAME]",
		Short: "List the sharing policies, or show one whole",
		Long: "List the sharing policies with what each follows, needs of a device and takes as " +
			"parameters. A parameter is\ngiven after a colon, wherever a policy is named: " +
			"--policy fair:slice=10ms,burst=2ms.",
		Args:      cobra.MaximumNArgs(1),
		ValidArgs: policyNames(),
		RunE: func(c *cobra.Command, args []string) error {
			rows := policy.All()
			if len(args) == 1 {
				row, err := policy.Find(args[0])
				if err != nil {
					return err
				}
				rows = []policy.Row{row}
			}
			var list policyList
			for _, r := range rows {
				list.Policies = append(list.Policies, describePolicy(r))
			}
			switch out := c.OutOrStdout(); {
			case asJSON:
				return printJSON(out, list)
			case len(args) == 1:
				printPolicy(out, &list.Policies[0])
			default:
				printPolicies(out, list.Policies)
			}
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

func printPolicies(w io.Writer, list []policyInfo) {
	for i := range list {
		p := &list[i]
		width := textWidth(w)
		fmt.Fprintln(w, hang(fmt.Sprintf("%-11s ", p.Name), p.What, width))
		fmt.Fprintln(w, hang(fmt.Sprintf("%-11s ", ""), fmt.Sprintf("%s; needs %s; %s", p.Source,
			p.needs(), p.parameters()), width))
	}
}

func (p *policyInfo) needs() string {
	if len(p.Needs) == 0 {
		return "nothing"
	}
	return strings.Join(p.Needs, ", ")
}

func (p *policyInfo) parameters() string {
	if len(p.Parameters) == 0 {
		return "no parameters"
	}
	var forms []string
	for _, x := range p.Parameters {
		forms = append(forms, x.Name+"="+x.Default)
	}
	return strings.Join(forms, ", ")
}

// printPolicy shows one policy whole.
func printPolicy(w io.Writer, p *policyInfo) {
	width := textWidth(w)
	fmt.Fprintf(w, "%s\n\n", terminal.Wrap(p.Name+": "+p.What, width))
	idle := "may stay idle"
	if p.Honours.Conserving {
		idle = "is lent to whoever waits"
	}
	for _, line := range [][2]string{{"source", p.Source}, {"needs", p.needs()},
		{"guarantees", held(p.Honours.Guarantee)}, {"limits", held(p.Honours.Limit)},
		{"classes", held(p.Honours.Class)}, {"idle time", idle},
		{"waits", fmt.Sprint(p.Honours.Wait)}} {
		fmt.Fprintln(w, hang(fmt.Sprintf("%-11s ", line[0]), line[1], width))
	}
	if len(p.Parameters) == 0 {
		return
	}
	fmt.Fprintln(w)
	for _, x := range p.Parameters {
		fmt.Fprintln(w, hang(fmt.Sprintf("%-11s ", x.Name), fmt.Sprintf("%s (%s; default %s)",
			x.Help, x.Unit, x.Default), width))
	}
}

func held(yes bool) string {
	if yes {
		return "hold"
	}
	return "are not heeded"
}
