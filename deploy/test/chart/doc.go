// Package chart tests the Helm chart. It renders the chart with helm for several sets of values. It checks every object
// against a schema made from Kubernetes' own Go types (kubeconform). It asserts what no schema says: nothing runs as
// root, selectors find their Pods, and no secret is in a ConfigMap. Topics must have as many partitions as there are
// lanes. It also writes the chart's README from its values.
//
// The package has tests only. They need helm and kubeconform on the PATH; `make test-helm` installs them.
package chart
