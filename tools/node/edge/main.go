// The devnet's edge: HTTP by host and path prefix to the Services of the Ingresses of one class, streams included.
package main

import (
	"context"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"time"

	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	core "k8s.io/client-go/listers/core/v1"
	lister "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/rest"
)

type targetKey struct{}

type edge struct {
	class     string
	ingresses lister.IngressLister
	services  core.ServiceLister
}

// target is the URL of the Service whose rule has this host and the longest matching path; nil without one.
func (e *edge) target(host, path string) *url.URL {
	all, _ := e.ingresses.List(labels.Everything())
	var best *url.URL
	longest := -1
	for _, ingress := range all {
		if ingress.Spec.IngressClassName == nil || *ingress.Spec.IngressClassName != e.class {
			continue
		}
		for _, rule := range ingress.Spec.Rules {
			if rule.Host != host || rule.HTTP == nil {
				continue
			}
			for _, candidate := range rule.HTTP.Paths {
				if len(candidate.Path) <= longest || !strings.HasPrefix(path, candidate.Path) {
					continue
				}
				if found := e.backend(ingress.Namespace, candidate.Backend.Service); found != nil {
					best, longest = found, len(candidate.Path)
				}
			}
		}
	}
	return best
}

func (e *edge) backend(namespace string, wanted *networking.IngressServiceBackend) *url.URL {
	if wanted == nil {
		return nil
	}
	service, err := e.services.Services(namespace).Get(wanted.Name)
	if err != nil || service.Spec.ClusterIP == "" {
		return nil
	}
	port := wanted.Port.Number
	for _, each := range service.Spec.Ports {
		if each.Name != "" && each.Name == wanted.Port.Name {
			port = each.Port
		}
	}
	return &url.URL{Scheme: "http", Host: fmt.Sprintf("%s:%d", service.Spec.ClusterIP, port)}
}

func (e *edge) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	host := r.Host
	if name, _, err := net.SplitHostPort(r.Host); err == nil {
		host = name
	}
	to := e.target(host, r.URL.Path)
	if to == nil {
		http.Error(w, "default backend - 404", http.StatusNotFound)
		return
	}
	proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), targetKey{}, to)))
}

var proxy = &httputil.ReverseProxy{
	FlushInterval: -1,
	Rewrite: func(r *httputil.ProxyRequest) {
		to, _ := r.In.Context().Value(targetKey{}).(*url.URL)
		r.SetURL(to)
		r.Out.Host = r.In.Host
		r.SetXForwarded()
	},
	Transport: &http.Transport{ResponseHeaderTimeout: 60 * time.Second, MaxIdleConnsPerHost: 32},
}

func main() {
	class := flag.String("class", "akash-ingress-class", "ingress class that this edge serves")
	listen := flag.String("listen", ":80", "address to listen on")
	flag.Parse()
	config, err := rest.InClusterConfig()
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	factory := informers.NewSharedInformerFactory(kubernetes.NewForConfigOrDie(config), 0)
	served := &edge{*class, factory.Networking().V1().Ingresses().Lister(), factory.Core().V1().Services().Lister()}
	stop := make(chan struct{})
	factory.Start(stop)
	factory.WaitForCacheSync(stop)
	fmt.Println("serving", *listen)
	fmt.Println(http.ListenAndServe(*listen, served))
}
