package main

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/weirgpu/weir/internal/wholefile"
)

// topic is a word with what it means.
type topic struct{ word, means string }

// exitCodes are all that a command ends with.
var exitCodes = []topic{
	{"0", "done; up, agent and top also when a signal has ended them in order"},
	{"1", "the work failed, or a check did not hold"},
	{"2", "the command line or a file is wrong"},
	{"125", "exec: the program was not started, for which a wrong flag is a reason too"},
	{"126", "exec: the program cannot be run"},
	{"127", "exec: the program was not found"},
	{"130", "ended by Ctrl-C (128 and the number of SIGINT)"},
	{"143", "ended by SIGTERM (128 and its number)"},
	{"other", "exec: that of the program, or 128 and the number of the signal that ended it"},
}

// environment are the variables that are read.
var environment = []topic{
	{"WEIR_CACHE", "folder of compiled plans, or off (default: weir/plans in the user's cache " +
		"folder)"},
	{"WEIR_ISA", "most instructions that kernels use: plain; avx2, avx512, avx512-vnni, " +
		"avx512-bf16 or avx512-amx; on arm64 neon, dotprod, i8mm or bf16"},
	{"WEIR_SERVER", "URL of the server that commands ask (default: http://localhost:8000)"},
	{"WEIR_TOKEN", "token that they send to it"},
	{"WEIR_NVML", "NVIDIA's management library, in place of the system's"},
	{"WEIR_RUNTIME_DIR", "folder of the agent's socket (default: weir in XDG_RUNTIME_DIR, else " +
		"weir-UID in the folder for temporary files)"},
	{"WEIR_FAKE_GPUS", "how many GPUs --fake-gpu simulates (default: 1)"},
	{"WEIR_FAKE_MEMORY", "what each of them has, such as 16GiB"},
	{"WEIR_FAKE_DIR", "folder of their state"},
	{"WEIR_FAKE_PROFILE", "how they are like hardware: plain, exact and at no cost (default), " +
		"hardware, or mix:SEED"},
	{"WEIR_FAKE_*", "internal, for tests of weir: one property of them each"},
	{"WEIR_AGENT_UID", "another user whose agent a program in exec may join, as --allow-uid of " +
		"agent allows from its side"},
	{"WEIR_REAL_LIBCUDA", "NVIDIA's driver library for programs in exec, in place of the system's"},
	{"WEIR_SPILL", "folder for memory of programs in exec that the host has no room for; exec " +
		"--spill sets it"},
	{"WEIR_VERBOSE", "programs in exec say which calls weir does not know; exec --verbose sets it"},
	{"WEIR_JOB", "internal: the job of a program in exec, set by exec"},
	{"WEIR_SOCKET", "internal: its agent's socket, set by exec"},
	{"WEIR_ONNX_TESTDATA", "internal, for tests of weir: folder or archive of ONNX's own cases, " +
		"or off"},
	{"CUDA_VISIBLE_DEVICES", "the first GPU of it is the one of exec, without --device"},
	{"CUDA_DEVICE_ORDER", "how that one is counted; PCI_BUS_ID counts as weir does"},
	{"CUDA_MPS_PIPE_DIRECTORY", "where the control daemon of NVIDIA's MPS listens"},
	{"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", "part of a GPU that a program has under MPS, which " +
		"exec sets where the policy needs MPS"},
	{"CUDA_MPS_ENABLE_PER_CTX_DEVICE_MULTIPROCESSOR_PARTITIONING", "whether the simulated " +
		"driver takes such a part for each context, as MPS does"},
	{"LD_LIBRARY_PATH", "kept behind the simulated driver's folder by exec --fake-gpu"},
	{"LD_PRELOAD", "kept behind weir's library by exec"},
	{"CC", "the C compiler of the library for exec (default: cc, gcc or clang)"},
	{"TMPDIR", "folder for temporary files (default: /tmp)"},
	{"XDG_RUNTIME_DIR", "see WEIR_RUNTIME_DIR"},
	{"XDG_STATE_HOME", "the user's folder for state (default: ~/.local/state)"},
	{"XDG_CACHE_HOME", "the user's cache folder (default: ~/.cache)"},
	{"GOMAXPROCS", "bounds the cores of commands without --threads"},
	{"GOGC", "Go's collector runs as it says (default: 200)"},
	{"COLUMNS", "width of text that does not go to a terminal"},
	{"TERM", "dumb: nothing is drawn over"},
	{"NO_COLOR", "no colours"},
	{"LC_ALL", "C or POSIX, as LC_CTYPE or LANG where it is unset: bars and signs in ASCII"},
	{"LC_CTYPE", "see LC_ALL"},
	{"LANG", "see LC_ALL"},
}

func newMan() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write a man page of each command into a folder",
		Long: "Write a man page of each command into a folder, which is made if it is missing: " +
			"for man -l DIR/weir.1, or a folder man1 of $MANPATH.",
		Args: exactly(1),
		RunE: func(c *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o777); err != nil {
				return failed(err)
			}
			return failed(eachCommand(c.Root(), func(c *cobra.Command) error {
				return wholefile.Write(filepath.Join(args[0], manName(c)+".1"),
					func(w io.Writer) error {
						_, err := io.WriteString(w, manPage(c))
						return err
					})
			}))
		},
	}
}

// eachCommand visits a command and all below it that people are told of.
func eachCommand(c *cobra.Command, visit func(*cobra.Command) error) error {
	if err := visit(c); err != nil {
		return err
	}
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			if err := eachCommand(sub, visit); err != nil {
				return err
			}
		}
	}
	return nil
}

// manName is the name of a command's page.
func manName(c *cobra.Command) string { return strings.ReplaceAll(c.CommandPath(), " ", "-") }

// manPage writes a command's page in the macros of man(7).
func manPage(c *cobra.Command) string {
	var b strings.Builder
	fmt.Fprintf(&b, ".TH %s 1 \"\" %q weir\n.SH NAME\n%s \\- %s\n", strings.ToUpper(manName(c)),
		"weir "+thisVersion().Version, roff(manName(c)), roff(c.Short))
	fmt.Fprintf(&b, ".SH SYNOPSIS\n.B %s\n.SH DESCRIPTION\n", roff(c.UseLine()))
	about := strings.TrimSpace(cmp.Or(c.Long, c.Short+"."))
	for i, paragraph := range strings.Split(about, "\n\n") {
		if i > 0 {
			b.WriteString(".PP\n")
		}
		b.WriteString(roff(paragraph) + "\n")
	}
	manList(&b, "OPTIONS", flagTerms(c))
	manList(&b, "COMMANDS", manCommands(c))
	if c.HasExample() {
		fmt.Fprintf(&b, ".SH EXAMPLES\n.nf\n%s\n.fi\n", roff(c.Example))
	}
	if !c.HasParent() {
		manList(&b, "EXIT STATUS", exitCodes)
		manList(&b, "ENVIRONMENT", environment)
		return b.String()
	}
	fmt.Fprintf(&b, ".SH SEE ALSO\n%s(1)\n", roff(manName(c.Parent())))
	return b.String()
}

// manCommands are the pages of the commands below c.
func manCommands(c *cobra.Command) (commands []topic) {
	for _, sub := range c.Commands() {
		if sub.IsAvailableCommand() {
			commands = append(commands, topic{manName(sub) + "(1)", sub.Short})
		}
	}
	return commands
}

func manList(b *strings.Builder, title string, list []topic) {
	if len(list) == 0 {
		return
	}
	fmt.Fprintf(b, ".SH %s\n", title)
	for _, t := range list {
		fmt.Fprintf(b, ".TP\n.B %s\n%s\n", roff(t.word), roff(t.means))
	}
}

// flagTerms are a command's flags.
func flagTerms(c *cobra.Command) []topic {
	var list []topic
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden {
			return
		}
		kind, usage := pflag.UnquoteUsage(f)
		word := "--" + f.Name
		if f.Shorthand != "" {
			word = "-" + f.Shorthand + ", " + word
		}
		if kind != "" {
			word += " " + kind
		}
		switch f.DefValue {
		case "", "0", "[]", "false", "0s", "0B":
		default:
			usage += " (default " + f.DefValue + ")"
		}
		list = append(list, topic{word, usage})
	})
	return list
}

// roff is text that means nothing else in a man page.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		if strings.HasPrefix(line, ".") || strings.HasPrefix(line, "'") {
			lines[i] = `\&` + line
		}
	}
	return strings.Join(lines, "\n")
}
