// Package ext stands in for Traefik's nested module of the same name, which the archive of Traefik's module lacks.
package ext

// HTTP adds no field to the HTTP configuration.
type HTTP struct{}

// Router adds no field to a router.
type Router struct{}

// DeepCopyInto copies nothing.
func (*HTTP) DeepCopyInto(*HTTP) {}

// DeepCopyInto copies nothing.
func (*Router) DeepCopyInto(*Router) {}
