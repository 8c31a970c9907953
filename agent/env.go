package agent

import (
	"fmt"
	"slices"
	"strings"
)

// Environment returns env for a program of a job: the job's token and socket, the library put
// before those preloaded already, what makes it a client of MPS with the job's percentage if it
// must be one, and more variables, given as NAME=VALUE, in place of those of the same name.
func Environment(env []string, socket string, g *JobGrant, shim string, more ...string) []string {
	preload := shim
	for _, v := range env {
		rest, ok := strings.CutPrefix(v, "LD_PRELOAD=")
		// A job within a job has the library there already.
		rest = strings.TrimPrefix(strings.TrimPrefix(rest, shim), ":")
		if ok && rest != "" {
			preload = shim + ":" + rest
		}
	}
	set := append(
		[]string{"WEIR_SOCKET=" + socket, "WEIR_JOB=" + g.Token.String(), "LD_PRELOAD=" + preload},
		more...)
	if g.ThreadPercent > 0 {
		set = append(set, "CUDA_MPS_PIPE_DIRECTORY="+g.MPSPipe,
			fmt.Sprintf("CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=%d", g.ThreadPercent))
	}
	env = slices.DeleteFunc(slices.Clone(env), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.ContainsFunc(set,
			func(s string) bool { return strings.HasPrefix(s, name+"=") })
	})
	return append(env, set...)
}
