// Command weir-scheduler is the stock scheduler of Kubernetes with weir's plug-in in it:
//
//	weir-scheduler --config config.yaml
//
// Its flags are kube-scheduler's. config.yaml beside this file is what it is meant to be run with.
// It also says where pods would go, by the same code, and changes nothing:
//
//	weir-scheduler what-if -kubeconfig FILE -f pods.yaml
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/weirgpu/weir/kube/scheduler/plugin"
)

func main() {
	if len(os.Args) > 1 && os.Args[1] == "what-if" {
		err := whatIf(context.Background(), os.Args[2:], os.Stdin, os.Stdout)
		if err != nil && !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "weir-scheduler:", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New))))
}
