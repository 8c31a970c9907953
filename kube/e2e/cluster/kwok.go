package cluster

import (
	"context"
	"fmt"
	"path/filepath"
)

// Kwok has kwok play the kubelets of all nodes that are made from here on: they are ready at once,
// and pods on them run without running.
func (c *Cluster) Kwok(context.Context) error {
	if err := c.has("kwok"); err != nil {
		return err
	}
	port, err := freePort("127.0.0.1")
	if err != nil {
		return err
	}
	args := []string{"--kubeconfig=" + c.Kubeconfig, "--manage-all-nodes=true",
		"--node-lease-duration-seconds=40", "--server-address=127.0.0.1:" + port}
	stages, err := filepath.Glob(filepath.Join(c.bin, "kwok", "*.yaml"))
	if err != nil || len(stages) == 0 {
		return fmt.Errorf("kwok: no stages in %s: %w", filepath.Join(c.bin, "kwok"), ErrNotBuilt)
	}
	for _, s := range stages {
		args = append(args, "--config="+s)
	}
	_, err = c.begin("kwok", args...)
	return err
}
