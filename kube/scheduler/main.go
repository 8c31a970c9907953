// Command weir-scheduler is the stock scheduler of Kubernetes with weir's plug-in in it:
//
//	weir-scheduler --config config.yaml
//
// Its flags are kube-scheduler's. config.yaml beside this file is what it is meant to be run with.
package main

import (
	"os"

	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"

	"github.com/weirgpu/weir/kube/scheduler/plugin"
)

func main() {
	os.Exit(cli.Run(app.NewSchedulerCommand(app.WithPlugin(plugin.Name, plugin.New))))
}
