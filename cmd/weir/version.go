package main

import (
	"fmt"
	"io"
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/internal/terminal"
)

// versionInfo says which weir this is.
type versionInfo struct {
	Version  string `json:"version"`  // of the module; "(devel)" of one that has none
	Commit   string `json:"commit"`   // "" where the build noted none
	Modified bool   `json:"modified"` // whether the files differed from the commit's
	Time     string `json:"time"`     // of the commit, RFC 3339; "" where the build noted none
	Go       string `json:"go"`
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	GPU      bool   `json:"gpu"` // whether it was built to open NVIDIA's libraries
}

// pseudoVersion ends in the first twelve digits of a commit (Go Modules Reference,
// "Pseudo-versions").
var pseudoVersion = regexp.MustCompile(`\d{14}-([0-9a-f]{12})(\+.*)?$`)

// versionOf takes what a build noted of itself; nil stands for a build that noted nothing.
func versionOf(b *debug.BuildInfo) versionInfo {
	v := versionInfo{Version: "(devel)", Go: runtime.Version(), OS: runtime.GOOS,
		Arch: runtime.GOARCH, GPU: nvml.Built}
	if b == nil {
		return v
	}
	if b.Main.Version != "" {
		v.Version = b.Main.Version
	}
	if m := pseudoVersion.FindStringSubmatch(v.Version); m != nil {
		v.Commit = m[1]
	}
	for _, s := range b.Settings {
		switch s.Key {
		case "vcs.revision":
			v.Commit = s.Value
		case "vcs.time":
			v.Time = s.Value
		case "vcs.modified":
			v.Modified = s.Value == "true"
		}
	}
	return v
}

func (v *versionInfo) print(w io.Writer) {
	commit := "not noted (go build notes it, go run and go test do not)"
	if v.Commit != "" {
		commit = v.Commit
		if v.Modified {
			commit += ", with changes"
		}
		if v.Time != "" {
			commit += ", of " + v.Time
		}
	}
	gpu := "opens NVIDIA's libraries where there are any"
	if !v.GPU {
		gpu = "was built without GPU support"
	}
	for _, line := range []string{"weir " + v.Version, "commit " + commit,
		fmt.Sprintf("%s %s/%s, %s", v.Go, v.OS, v.Arch, gpu)} {
		fmt.Fprintln(w, terminal.Wrap(line, textWidth(w)))
	}
}

// thisVersion is that of the running program.
func thisVersion() versionInfo {
	b, _ := debug.ReadBuildInfo()
	return versionOf(b)
}

func newVersion() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "version",
		Short: "Say which weir this is: version, commit, Go",
		Args:  exactly(0),
		RunE: func(c *cobra.Command, _ []string) error {
			v := thisVersion()
			if asJSON {
				return printJSON(c.OutOrStdout(), v)
			}
			v.print(c.OutOrStdout())
			return nil
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return c
}
