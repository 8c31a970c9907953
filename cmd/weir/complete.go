package main

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share/policy"
)

// addCompletion adds the command that writes the shells' scripts. It writes to where root's output
// goes when it is added.
func addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	for _, c := range root.Commands() {
		if c.HasSubCommands() && !c.Runnable() { // the library's, which takes any word
			c.Args = subcommand
			c.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
		}
	}
}

// files completes every argument with files of the given extensions, and folders on the way to
// them.
func files(extensions ...string) cobra.CompletionFunc {
	return func(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
		return extensions, cobra.ShellCompDirectiveFilterFileExt
	}
}

// firstOf completes the first argument with words and the others with file names.
func firstOf(words []string) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		if len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		return words, cobra.ShellCompDirectiveNoFileComp
	}
}

// completeInputs completes --input with the names of the model's inputs, and after a name with
// files.
func completeInputs(c *cobra.Command) {
	complete := func(_ *cobra.Command, args []string, typed string) ([]cobra.Completion,
		cobra.ShellCompDirective) {
		name, file, named := strings.Cut(typed, "=")
		if named {
			return filesAfter(name+"=", file), cobra.ShellCompDirectiveNoSpace
		}
		if len(args) == 0 {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		m, err := onnx.Open(args[0], onnx.Options{})
		if err != nil {
			return nil, cobra.ShellCompDirectiveError
		}
		defer m.Close()
		var words []cobra.Completion
		for _, v := range m.Graph.Inputs {
			words = append(words, cobra.CompletionWithDesc(v.Name+"=", v.Type.String()))
		}
		return words, cobra.ShellCompDirectiveNoSpace
	}
	if err := c.RegisterFlagCompletionFunc("input", complete); err != nil {
		panic(err)
	}
}

// filesAfter lists the files whose paths begin as typed, each behind a word. The shell would look
// for files that begin with that word.
func filesAfter(word, typed string) []cobra.Completion {
	dir, begun := filepath.Split(typed)
	list, _ := os.ReadDir(cmp.Or(dir, "."))
	var found []cobra.Completion
	for _, d := range list {
		if !strings.HasPrefix(d.Name(), begun) || begun == "" && strings.HasPrefix(d.Name(), ".") {
			continue
		}
		path := word + dir + d.Name()
		if d.IsDir() {
			path += "/"
		}
		found = append(found, path)
	}
	return found
}

// completeFlag completes a flag's value with words. The flag must exist, which is up to the caller.
func completeFlag(c *cobra.Command, flag string, words ...string) {
	if err := c.RegisterFlagCompletionFunc(flag,
		cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp)); err != nil {
		panic(err)
	}
}

func policyNames() []string {
	var names []string
	for _, r := range policy.All() {
		names = append(names, r.Name)
	}
	return names
}

func stageNames() []string { return append([]string{"all"}, pass.Names()...) }

func modeNames() []string { return []string{string(scenario.Threads), string(scenario.Processes)} }
