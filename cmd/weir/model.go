package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/zoo"
)

type modelResult struct {
	File       string `json:"file"`
	Parameters int64  `json:"parameters"`
}

func newModel() *cobra.Command {
	names := zoo.Names()
	var asJSON bool
	var seed uint64
	create := &cobra.Command{
		Use:   "new ARCH OUT",
		Short: "Write a standard architecture with seeded random weights",
		Long: "Write a standard architecture with seeded random weights: " + strings.Join(names,
			", ") + ".",
		Args: exactly(2),

		ValidArgsFunction: firstOf(names),
		RunE: func(c *cobra.Command, args []string) error {
			res, err := writeModel(c.Context(), args[0], args[1], seed)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), res)
			}
			fmt.Fprintf(c.OutOrStdout(), "%s: %.2f M parameters\n", res.File,
				float64(res.Parameters)/1e6)
			return nil
		},
	}
	create.Flags().Uint64Var(&seed, "seed", 1, "seed of the weights")
	create.Flags().BoolVar(&asJSON, "json", false, "print one JSON object")
	return group("model", "Model files, and the models of a server", create, newModelList(),
		newModelLoad(), newModelUnload(), newModelPush(), newModelRollback())
}

func writeModel(ctx context.Context, arch, path string, seed uint64) (*modelResult, error) {
	g, err := zoo.New(arch, zoo.Options{Seed: seed})
	if err != nil {
		return nil, err
	}
	return &modelResult{
			File:       path,
			Parameters: int64(zoo.Parameters(g)),
		}, failed(writeOut(ctx, path, func() error {
			return onnx.WriteFile(path, g, onnx.WriteOptions{})
		}))
}
