package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirgpu/weir/internal/terminal"
)

// group is a command that only holds others.
func group(use, short string, commands ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{Use: use, Short: short, Args: subcommand,
		RunE: func(c *cobra.Command, _ []string) error { return c.Help() }}
	c.AddCommand(commands...)
	return c
}

// subcommand refuses arguments of a command that only holds others: each is the name of one that
// it does not hold.
func subcommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return fmt.Errorf("unknown command %q for %q%s: see %s --help", args[0], c.CommandPath(),
		meant(c, args[0]), c.CommandPath())
}

// meant asks for the commands of c whose names are like a mistyped one, "" if none is.
func meant(c *cobra.Command, typed string) string {
	c.SuggestionsMinimumDistance = 2 // edits
	names := c.SuggestionsFor(typed)
	if len(names) == 0 {
		return ""
	}
	return ": did you mean " + strings.Join(names, " or ") + "?"
}

// meantFlag asks for the flags of c whose names are like that of one which it does not have, "" if
// err is another error or none is.
func meantFlag(c *cobra.Command, err error) string {
	var unknown *pflag.NotExistError
	if !errors.As(err, &unknown) || len(unknown.GetSpecifiedName()) < 2 {
		return ""
	}
	// The library measures how far words are from each other for commands only.
	names := &cobra.Command{SuggestionsMinimumDistance: 2} // edits
	c.Flags().VisitAll(func(f *pflag.Flag) {
		if !f.Hidden {
			names.AddCommand(&cobra.Command{Use: "--" + f.Name,
				Run: func(*cobra.Command, []string) {}})
		}
	})
	return meant(names, "--"+unknown.GetSpecifiedName())
}

// newHelp is the command help, which fails where there is no such command.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use:   "help [COMMAND]...",
		Short: "Show how a command is used",
		RunE: func(c *cobra.Command, args []string) error {
			topic, err := helpTopic(c.Root(), args)
			if err != nil {
				return err
			}
			topic.SetContext(c.Context())
			topic.InitDefaultHelpFlag()
			return topic.Help()
		},
		ValidArgsFunction: func(c *cobra.Command, args []string, _ string) ([]cobra.Completion,
			cobra.ShellCompDirective) {
			var names []cobra.Completion
			if topic, err := helpTopic(c.Root(), args); err == nil {
				for _, sub := range topic.Commands() {
					if sub.IsAvailableCommand() {
						names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
					}
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
	}
}

// helpTopic finds the command that names lead to.
func helpTopic(at *cobra.Command, names []string) (*cobra.Command, error) {
	for _, name := range names {
		var next *cobra.Command
		for _, sub := range at.Commands() {
			if sub.Name() == name {
				next = sub
			}
		}
		if next == nil {
			return nil, fmt.Errorf("unknown help topic %q%s: see %s --help",
				strings.Join(names, " "), meant(at, name), at.CommandPath())
		}
		at = next
	}
	return at, nil
}

// writeHelp writes what a command does and how it is used, no wider than the terminal.
func writeHelp(c *cobra.Command, _ []string) {
	var b strings.Builder
	width := textWidth(c.OutOrStdout())
	about := c.Long
	if about == "" {
		about = c.Short
	}
	for paragraph := range strings.SplitSeq(strings.TrimSpace(about), "\n\n") {
		fmt.Fprintf(&b, "%s\n\n", terminal.Wrap(paragraph, width))
	}
	writeUsage(&b, c, width)
	fmt.Fprint(c.OutOrStdout(), terminal.Text(b.String()))
}

// writeUsage writes a command's form, examples, commands and flags.
func writeUsage(w io.Writer, c *cobra.Command, width int) {
	fmt.Fprint(w, "Usage:\n")
	if c.Runnable() {
		fmt.Fprintf(w, "  %s\n", c.UseLine())
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprintf(w, "  %s [command]\n", c.CommandPath())
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasAvailableSubCommands() {
		fmt.Fprint(w, "\nCommands:\n")
		writeCommands(w, c, width)
	}
	if c.HasAvailableLocalFlags() {
		fmt.Fprintf(w, "\nFlags:\n%s\n", strings.TrimRight(flagUsages(c, width), "\n"))
	}
	if c.HasAvailableSubCommands() {
		more := c.CommandPath() + " [command] --help says more about a command."
		fmt.Fprintf(w, "\n%s\n", terminal.Wrap(more, width))
	}
}

// writeCommands writes a line for each command below c.
func writeCommands(w io.Writer, c *cobra.Command, width int) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			head := fmt.Sprintf("  %-*s ", sub.NamePadding(), sub.Name())
			fmt.Fprintln(w, hang(head, sub.Short, width))
		}
	}
}

// flagUsages says what flags are for: beside them or, where lines are too short for that, below.
func flagUsages(c *cobra.Command, width int) string {
	const columns = 60 // of which the library leaves too few for text beside the flags
	if width >= columns {
		return c.LocalFlags().FlagUsagesWrapped(width)
	}
	var b strings.Builder
	for _, f := range flagTerms(c) {
		fmt.Fprintln(&b, terminal.Fit("  "+f.word, width))
		fmt.Fprintln(&b, terminal.Fit("      "+f.means, width))
	}
	return b.String()
}

// hang writes text after a head, its further lines below its first.
func hang(head, text string, width int) string {
	indent := min(len(head), width/2)
	lines := terminal.Wrap(text, max(width-indent, 10))
	return terminal.Text(head + strings.ReplaceAll(lines, "\n", "\n"+strings.Repeat(" ", indent)))
}
