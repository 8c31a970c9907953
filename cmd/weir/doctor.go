package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/agent"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/machine"
	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/internal/terminal"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/share"
)

// verdict is what a finding means for who runs weir.
type verdict string

const (
	fine    verdict = "ok"
	noted   verdict = "note"    // it works, and less than it could
	problem verdict = "problem" // something that weir does fails
)

// finding is what one check of this machine shows.
type finding struct {
	Check   string  `json:"check"`
	Verdict verdict `json:"verdict"`
	What    string  `json:"what"`
	Next    string  `json:"next,omitempty"` // step of a person, where there is one
}

// diagnosis is all that was looked at.
type diagnosis struct {
	Version  versionInfo       `json:"version"`
	Limits   *roofline.Machine `json:"limits"`
	Findings []finding         `json:"checks"`
	Problems int               `json:"problems"`
}

func newDoctor() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "doctor",
		Short: "Look at what weir finds on this machine, and say what to do about it",
		Long: `Look at the processor, its instructions and measured limits, control groups, the folder of
plans, GPUs, their driver and the agent. Each has a verdict: ok; note, where weir works and could do
more; problem, where something fails, which makes exit code 1. Measuring takes 0.1 s of all cores.`,
		Args: exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			d, err := diagnose(c.Context())
			if err != nil {
				return failed(err)
			}
			if asJSON {
				err = printJSON(c.OutOrStdout(), d)
			} else {
				d.print(c.OutOrStdout())
			}
			if err == nil && d.Problems > 0 {
				err = failed(fmt.Errorf("%d of %d checks found a problem", d.Problems,
					len(d.Findings)))
			}
			return err
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}

// diagnose makes all checks. The error is the context's.
func diagnose(ctx context.Context) (*diagnosis, error) {
	d := &diagnosis{Version: thisVersion()}
	on, err := machine.Open("cpu:0", machine.Options{Threads: threads(0)})
	if err != nil {
		return nil, err
	}
	defer on.Close()
	if d.Limits, err = roofline.Measure(ctx, on.Target, on.Pool); err != nil {
		return nil, err
	}
	info := on.Device.Info()
	gemm.SettleTiles() // before it is said whether anything is in doubt
	d.add(processorFinding(&info), instructionsFinding(cpuinfo.CurrentPath(),
		os.Getenv(cpuinfo.PathVariable)), limitsFinding(d.Limits))
	d.add(groupFindings(cpu.ControlGroups(), runtime.NumCPU(), &info)...)
	d.add(cacheFinding(), compilerFinding())
	gpus, err := nvml.Discover()
	d.add(gpuFindings(gpus, err)...)
	d.add(agentFinding(ctx, agent.RuntimeDir(false)))
	return d, ctx.Err()
}

func (d *diagnosis) add(list ...finding) {
	for _, f := range list {
		if f.Verdict == problem {
			d.Problems++
		}
		d.Findings = append(d.Findings, f)
	}
}

func (d *diagnosis) print(w io.Writer) {
	d.Version.print(w)
	fmt.Fprintln(w)
	width := textWidth(w)
	for _, f := range d.Findings {
		text := f.What
		if f.Next != "" {
			text += ": " + f.Next
		}
		if width < 60 {
			say(w, "%s: %s: %s", f.Verdict, f.Check, text)
			continue
		}
		head := fmt.Sprintf("%-8s %-13s ", f.Verdict, f.Check)
		fmt.Fprintln(w, hang(head, text, width))
	}
}

func processorFinding(d *device.Info) finding {
	f := finding{Check: "processor", Verdict: fine,
		What: fmt.Sprintf("%s, %d cores for this process", d.Name, d.Units)}
	if runtime.GOARCH == "arm64" { // only there are kinds known
		f.What += coresSaid(cpuinfo.CoreKinds())
	}
	if text := os.Getenv("GOMAXPROCS"); text != "" {
		f.Verdict = noted
		f.What += ", GOMAXPROCS=" + text
		f.Next = "unset it for all of them"
	}
	return f
}

// coresSaid says what cores a machine has, where they are not alike.
func coresSaid(kinds []cpuinfo.CoreKind) string {
	if len(kinds) < 2 {
		return ""
	}
	var parts []string
	for i, k := range kinds {
		text := fmt.Sprint(k.Cores)
		switch {
		case i == 0:
			text += " fast"
		case k.Speed > 0:
			text += fmt.Sprintf(" of %.2f of their speed", k.Speed)
		default:
			text += " slower"
		}
		parts = append(parts, text)
	}
	return "; the machine's are " + strings.Join(parts, ", ")
}

func instructionsFinding(p cpuinfo.Path, variable string) finding {
	f := finding{Check: "instructions", Verdict: fine, What: p.String()}
	switch doubt := cpuinfo.Doubt(); {
	case doubt != "":
		f.Verdict = noted
		f.What += "; " + doubt
		f.Next = "results are right; unless somebody forbids it, report it to who makes the " +
			"processor or the emulator"
	case variable != "":
		f.Verdict = noted
		f.What += fmt.Sprintf(", %s=%s allows no more", cpuinfo.PathVariable, variable)
		f.Next = "unset it for all that the processor has"
	case p == cpuinfo.PathPlain && runtime.GOARCH == "amd64":
		f.Verdict = noted
		f.What += ", compiled Go: this processor, or what a hypervisor shows of it, has no AVX2"
		f.Next = "models run several times as fast on one that has, see docs/paths.md"
	case p == cpuinfo.PathPlain:
		f.Verdict = noted
		f.What += ", compiled Go: there are no kernels for the instructions of " + runtime.GOARCH
		f.Next = "models run several times as fast on amd64"
	case p < cpuinfo.PathAVX2:
		f.Verdict = noted
		f.What += ": what it has no kernels for is compiled Go"
		f.Next = "docs/paths.md says what that is"
	}
	return f
}

func limitsFinding(m *roofline.Machine) finding {
	var parts []string
	for _, p := range []roofline.Format{roofline.FP32, roofline.BF16, roofline.Int8} {
		if v := m.Peak[p]; v > 0 {
			parts = append(parts, fmt.Sprintf("%s %.0f GFLOP/s", p, v))
		}
	}
	if n := len(m.Read); n > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GB/s from memory", m.Read[n-1].GBPerS))
	}
	f := finding{Check: "limits", Verdict: fine,
		What: fmt.Sprintf("%s on %d threads", strings.Join(parts, ", "), m.Threads)}
	if m.Processor.AVX512 == "half rate" {
		f.What += ", AVX-512 at half rate"
	}
	return f
}

// groupFindings are about what control groups leave of the machine.
func groupFindings(g cpu.Limits, online int, d *device.Info) []finding {
	cores := finding{Check: "cores", Verdict: fine, What: "control groups grant all of their time"}
	if g.Cores > 0 && g.Cores < float64(online) {
		cores.Verdict = noted
		cores.What = fmt.Sprintf("a control group grants the time of %.3g of %d cores", g.Cores,
			online)
		cores.Next = "what uses more is stopped for the rest of each period; cpu.max raises it"
	}
	memory := finding{Check: "memory", Verdict: fine, What: terminal.Size(d.MemoryBytes)}
	if g.MemoryBytes > 0 && g.MemoryBytes <= d.MemoryBytes {
		memory.What += ", by the limit of a control group"
	}
	if d.MemoryBytes > 0 && d.MemoryBytes < int64(share.GiB) {
		memory.Verdict = noted
		memory.Next = "weir inspect says what a model takes, --memory refuses more"
	}
	return []finding{cores, memory}
}

func cacheFinding() finding {
	f := finding{Check: "plan cache", Verdict: noted}
	if os.Getenv(cache.EnvDir) == "off" {
		f.What = "off, every start compiles its model"
		f.Next = "unset " + cache.EnvDir
		return f
	}
	plans, err := openCache()
	if err != nil {
		f.What, f.Next = err.Error(), "let "+cache.EnvDir+" name a folder"
		return f
	}
	entries, err := plans.Entries(nil)
	if err != nil {
		f.Verdict, f.What = problem, fmt.Sprintf("%s is not used: %v", plans.Dir(), err)
		f.Next = "or let " + cache.EnvDir + " name another folder"
		return f
	}
	var bytes int64
	for _, e := range entries {
		bytes += e.Bytes
	}
	f.Verdict = fine
	f.What = fmt.Sprintf("%s, %s of at most %s", plans.Dir(), terminal.Size(bytes),
		terminal.Size(plans.MaxBytes()))
	return f
}

// compilerFinding is about the compiler that makes the library of weir exec at its first use.
func compilerFinding() finding {
	f := finding{Check: "C compiler", Verdict: fine}
	names := []string{"cc", "gcc", "clang"}
	if cc := os.Getenv("CC"); cc != "" {
		names = []string{cc}
	}
	for _, name := range names {
		if path, err := exec.LookPath(name); err == nil {
			f.What = path + ", for weir exec"
			return f
		}
	}
	f.Verdict, f.What = noted, "none ("+strings.Join(names, ", ")+")"
	f.Next = "weir exec compiles a library with it once; install one, or give --shim"
	return f
}

func gpuFindings(gpus []device.Info, err error) []finding {
	var list []finding
	for i := range gpus {
		d := &gpus[i]
		f := finding{Check: d.ID, Verdict: fine, What: fmt.Sprintf("%s, %s, %s free", d.Name,
			terminal.Size(d.MemoryBytes), terminal.Size(d.FreeBytes))}
		if d.MIGEnabled {
			f.Verdict = noted
			f.What += ", cut into MIG instances, which weir exec does not share"
			f.Next = "switch MIG off (nvidia-smi -mig 0)"
		}
		list = append(list, f)
	}
	switch {
	case errors.Is(err, nvml.ErrNotBuilt):
		list = append(list, finding{"GPU", noted, "this weir was built without GPU support",
			"build it without the tag nogpu for weir exec"})
	case errors.Is(err, nvml.ErrNoDriver):
		list = append(list, finding{"GPU", noted, strings.ReplaceAll(err.Error(), "\n", "; "),
			"weir exec needs one, models do not; weir exec --fake-gpu shows it without"})
	case err != nil:
		list = append(list, finding{"GPU", problem, strings.ReplaceAll(err.Error(), "\n", "; "),
			"nvidia-smi should say the same"})
	}
	if len(gpus) > 0 && gpus[0].Driver != nil {
		list = append(list, finding{Check: "driver", Verdict: fine, What: fmt.Sprintf(
			"%s, CUDA %s", gpus[0].Driver.Version, gpus[0].Driver.CUDA)})
	}
	return append(list, limitFindings(gpus, os.Geteuid() == 0, groupsMounted())...)
}

// groupsMounted reports whether there are control groups where the driver looks for them.
func groupsMounted() bool {
	_, err := os.Stat("/sys/fs/cgroup/cgroup.controllers")
	return err == nil
}

// limitFindings are about the driver's own limit of memory below programs.
func limitFindings(gpus []device.Info, root, groups bool) []finding {
	i := slices.IndexFunc(gpus, func(d device.Info) bool {
		return d.Driver != nil && !d.MIGEnabled
	})
	if i < 0 {
		return nil // of instances weir exec shares none
	}
	f := finding{Check: "driver limit", Verdict: noted}
	const alone = ": programs are held to their caps by the library within them alone"
	switch {
	case !gpus[i].Driver.MemoryLimit:
		f.What = "driver " + gpus[i].Driver.Version + " has no limit of memory of its own" + alone
		f.Next = "those of branch 615 and later have one"
	case !groups:
		f.What = "no control groups of version 2 are mounted at /sys/fs/cgroup, which the " +
			"driver's own limit of memory is for" + alone
		f.Next = "boot with systemd.unified_cgroup_hierarchy=1"
	case !root:
		f.What = "only an agent of root may have the driver limit a job's memory" + alone
		f.Next = "run weir agent as root for programs that are not trusted"
	default:
		f.Verdict = fine
		f.What = "an agent of root has the driver limit the memory of jobs whose programs have a " +
			"control group to themselves"
	}
	return []finding{f}
}

// agentFinding is about the agent of a runtime folder.
func agentFinding(ctx context.Context, dir string) finding {
	f := finding{Check: "agent", Verdict: fine}
	client, err := agent.Dial(dir)
	switch {
	case errors.Is(err, agent.ErrNotRunning):
		f.What = "none runs: the first weir exec starts one in " + dir
		return f
	case err != nil:
		f.Verdict, f.What = problem, err.Error()
		f.Next = "let WEIR_RUNTIME_DIR name a folder of your own"
		return f
	}
	defer client.Close()
	err = client.Watch(ctx, 0, func(s agent.Snapshot) error {
		jobs := 0
		for i := range s.Devices {
			jobs += len(s.Devices[i].Jobs)
		}
		f.What = fmt.Sprintf("runs in %s, policy %s, %d jobs", dir, s.Policy, jobs)
		return nil
	})
	if err != nil {
		f.Verdict, f.What = problem, "it does not answer: "+err.Error()
		f.Next = "start it again (weir agent), programs rejoin it"
	}
	return f
}
