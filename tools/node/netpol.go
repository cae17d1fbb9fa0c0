package main

import (
	"flag"
	"fmt"
	"os"
	"os/signal"
	"sync"
	"syscall"
	"time"

	"github.com/cloudnativelabs/kube-router/v2/pkg/controllers/netpol"
	"github.com/cloudnativelabs/kube-router/v2/pkg/healthcheck"
	"github.com/cloudnativelabs/kube-router/v2/pkg/options"
	"github.com/spf13/cobra"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/klog/v2"
)

// newNetworkPolicyCommand runs kube-router's NetworkPolicy controller alone: no routing, no IPVS, no CNI.
func newNetworkPolicyCommand() *cobra.Command {
	config := options.NewKubeRouterConfig()
	command := &cobra.Command{
		Use:          "kube-network-policies",
		SilenceUsage: true,
		RunE:         func(*cobra.Command, []string) error { return enforce(config) },
	}
	config.AddFlags(command.Flags())
	logging := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(logging)
	if verbosity := logging.Lookup("v"); verbosity != nil && command.Flags().Lookup("v") == nil {
		command.Flags().AddGoFlag(verbosity)
	}
	return command
}

// enforce keeps the node's iptables equal to the cluster's policies until SIGTERM or SIGINT.
func enforce(config *options.KubeRouterConfig) error {
	rest, err := clientcmd.BuildConfigFromFlags(config.Master, config.Kubeconfig)
	if err != nil {
		return err
	}
	rest.QPS, rest.Burst = 100, 200
	client, err := kubernetes.NewForConfig(rest)
	if err != nil {
		return err
	}
	stop := make(chan struct{})
	factory := informers.NewSharedInformerFactory(client, 0)
	pods := factory.Core().V1().Pods().Informer()
	namespaces := factory.Core().V1().Namespaces().Informer()
	policies := factory.Networking().V1().NetworkPolicies().Informer()
	factory.Start(stop)
	for kind, synced := range factory.WaitForCacheSync(stop) {
		if !synced {
			return fmt.Errorf("%v could not be listed", kind)
		}
	}
	tables, sets, err := netpol.NewIPTablesHandlers(config)
	if err != nil {
		return fmt.Errorf("iptables: %w", err)
	}
	var mutex sync.Mutex
	controller, err := netpol.NewNetworkPolicyController(client, config, pods, policies, namespaces, &mutex, tables, sets)
	if err != nil {
		return err
	}
	for informer, handler := range map[cache.SharedIndexInformer]cache.ResourceEventHandler{
		pods:       controller.PodEventHandler,
		namespaces: controller.NamespaceEventHandler,
		policies:   controller.NetworkPolicyEventHandler,
	} {
		if _, err := informer.AddEventHandler(handler); err != nil {
			return err
		}
	}
	return runUntilSignal(controller, stop)
}

func runUntilSignal(controller *netpol.NetworkPolicyController, stop chan struct{}) error {
	beats := make(chan *healthcheck.ControllerHeartbeat, 10)
	go func() {
		for range beats { // the controller blocks on a channel that nothing reads
		}
	}()
	var group sync.WaitGroup
	group.Add(1)
	go controller.Run(beats, stop, &group)
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, syscall.SIGTERM, syscall.SIGINT)
	<-ended
	close(stop)
	done := make(chan struct{})
	go func() { group.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(2 * time.Second):
	}
	return nil
}
