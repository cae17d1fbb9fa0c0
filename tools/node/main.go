// The node's programs in one binary: the name it is called by chooses the program.
// One link instead of three keeps the cache small.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func command(name string) *cobra.Command {
	switch name {
	case "kubelet":
		return kubelet.NewKubeletCommand(context.Background())
	case "kube-proxy":
		return proxy.NewProxyCommand()
	case "kube-network-policies":
		return newNetworkPolicyCommand()
	}
	return nil
}

func main() {
	program := command(filepath.Base(os.Args[0]))
	if program == nil {
		fmt.Fprintln(os.Stderr, "call me kubelet, kube-proxy or kube-network-policies (by a symbolic link)")
		os.Exit(2)
	}
	os.Exit(cli.Run(program))
}
