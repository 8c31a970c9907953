package main

import (
	"bufio"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

//go:embed c/count.c
var plugin []byte

// toolNames say what was used.
type toolNames struct {
	Emulator string `json:"emulator"`
	Compiler string `json:"compiler_for_arm64,omitempty"`
	Peer     string `json:"onnxruntime,omitempty"`
}

// emulator runs programs of arm64 and counts what they execute. It keeps its files in a folder.
type emulator struct {
	path, plugin, folder, cpu string
	// root has files that a guest finds in place of the host's.
	root  string
	tools toolNames
}

// libraries is where Debian's packages for cross compilation have the libraries of arm64.
const libraries = "/usr/aarch64-linux-gnu/lib"

// processors are those that may be emulated, as Linux describes them: by part number (Arm's
// Technical Reference Manuals, MIDR_EL1) and features. The first two neither multiply matrices, of
// bytes or of bfloat16, in one instruction, nor have vectors of other lengths; max has all that the
// emulator knows, and says here that it is a Neoverse V1.
var processors = map[string]struct{ part, features string }{
	"neoverse-n1": {"0xd0c", "fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid " +
		"asimdrdm lrcpc dcpop asimddp ssbs"},
	"cortex-a72": {"0xd08", "fp asimd aes pmull sha1 sha2 crc32 cpuid"},
	"max": {"0xd40", "fp asimd aes pmull sha1 sha2 crc32 atomics fphp asimdhp cpuid asimdrdm " +
		"lrcpc dcpop asimddp sve i8mm bf16"},
}

// newEmulator builds the plugin for the emulator that is installed.
func newEmulator(folder, cpu string) (*emulator, error) {
	e := &emulator{folder: folder, cpu: cpu, plugin: filepath.Join(folder, "count.so"),
		root: filepath.Join(folder, "root")}
	err := e.furnish()
	if err != nil {
		return nil, err
	}
	if e.path, err = tool("qemu-aarch64", "qemu-user"); err != nil {
		return nil, err
	}
	out, err := exec.Command(e.path, "--version").Output()
	if err != nil {
		return nil, err
	}
	e.tools.Emulator, _, _ = strings.Cut(string(out), "\n")
	api, err := pluginAPI(e.tools.Emulator)
	if err != nil {
		return nil, err
	}
	cc, err := tool("gcc", "gcc")
	if err != nil {
		return nil, err
	}
	source := filepath.Join(folder, "count.c")
	if err := os.WriteFile(source, plugin, 0o666); err != nil {
		return nil, err
	}
	return e, said(exec.Command(cc, "-O2", "-fPIC", "-shared", "-fvisibility=hidden",
		fmt.Sprint("-DAPI=", api), "-o", e.plugin, source))
}

// furnish writes the files by which programs tell what processor they run on: those of the host
// describe another architecture, which ONNX Runtime's library takes badly.
func (e *emulator) furnish() error {
	p, ok := processors[e.cpu]
	if !ok {
		return fmt.Errorf("-cpu %q: one of %v", e.cpu, slices.Sorted(maps.Keys(processors)))
	}
	text := "processor\t: 0\nBogoMIPS\t: 50.00\nFeatures\t: " + p.features +
		"\nCPU implementer\t: 0x41\nCPU architecture: 8\nCPU variant\t: 0x0\nCPU part\t: " +
		p.part + "\nCPU revision\t: 1\n\n"
	for name, content := range map[string]string{
		"proc/cpuinfo":                    text,
		"sys/devices/system/cpu/possible": "0\n",
		"sys/devices/system/cpu/present":  "0\n",
		"sys/devices/system/cpu/online":   "0\n",
	} {
		file := filepath.Join(e.root, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(file), 0o777); err != nil {
			return err
		}
		if err := os.WriteFile(file, []byte(content), 0o666); err != nil {
			return err
		}
	}
	return os.Symlink(libraries, filepath.Join(e.root, "lib"))
}

// pluginAPI tells the version of the interface for plugins from what the emulator says of its own:
// 1 up to 8.1, 2 from 8.2, and later ones take plugins for 2.
func pluginAPI(said string) (int, error) {
	var major, minor int
	if _, err := fmt.Sscanf(said, "qemu-aarch64 version %d.%d", &major, &minor); err != nil {
		return 0, fmt.Errorf("%q is no version of QEMU's: %w", said, err)
	}
	switch {
	case major < 6:
		return 0, fmt.Errorf("%w: %s has no plugins for system calls: 6 or later", errTool, said)
	case major > 8 || major == 8 && minor >= 2:
		return 2, nil
	}
	return 1, nil
}

// tool finds a program, and says how Debian calls the package that has it.
func tool(name, packages string) (string, error) {
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w: no %s (Debian: apt-get install %s)", errTool, name, packages)
	}
	return path, nil
}

// said runs a command and has what it said in the error.
func said(c *exec.Cmd) error {
	out, err := c.CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", c.Path, err, out)
	}
	return nil
}

// counts are what a program executed.
type counts struct {
	marks  []uint64 // instructions up to each mark
	blocks []block  // between the last two
}

// block is straight code that was executed so often.
type block struct{ address, length, runs uint64 }

// run runs a program and reads what the plugin has counted.
func (e *emulator) run(env []string, program string, args ...string) (*counts, error) {
	file := filepath.Join(e.folder, "counts")
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	c := exec.Command(e.path, append([]string{"-cpu", e.cpu, "-L", e.root, "-plugin",
		e.plugin + ",out=" + file, program}, args...)...)
	c.Env = append(os.Environ(), env...)
	if err := said(c); err != nil {
		return nil, err
	}
	f, err := os.Open(file)
	if err != nil {
		return nil, fmt.Errorf("%s has made no mark: %w", program, err)
	}
	defer f.Close()
	return parse(f)
}

// parse reads the plugin's file.
func parse(r io.Reader) (*counts, error) {
	c := &counts{}
	lines := bufio.NewScanner(r)
	for lines.Scan() {
		var err error
		var b block
		switch f := strings.Fields(lines.Text()); {
		case len(f) == 2 && f[0] == "mark":
			var n uint64
			n, err = strconv.ParseUint(f[1], 10, 64)
			c.marks = append(c.marks, n)
		case len(f) == 4 && f[0] == "block":
			_, err = fmt.Sscanf(lines.Text(), "block %x %d %d", &b.address, &b.length, &b.runs)
			c.blocks = append(c.blocks, b)
		default:
			err = errors.New("neither a mark nor a block")
		}
		if err != nil {
			return nil, fmt.Errorf("counts, %q: %w", lines.Text(), err)
		}
	}
	return c, lines.Err()
}

// runs returns the instructions of each run but the first, which warms up: of n runs there are
// n + 1 marks.
func (c *counts) runs() ([]uint64, error) {
	if len(c.marks) < 3 {
		return nil, fmt.Errorf("%d marks: 3 at least, of 2 runs", len(c.marks))
	}
	var n []uint64
	for i := 2; i < len(c.marks); i++ {
		n = append(n, c.marks[i]-c.marks[i-1])
	}
	return n, nil
}
