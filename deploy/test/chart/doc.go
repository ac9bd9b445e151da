// Package chart tests the Helm chart: it renders it with helm for several sets of values, checks every object against a
// schema made from Kubernetes' own Go types (kubeconform), and asserts what no schema says: that nothing runs as root,
// that selectors find their Pods, that no secret is in a ConfigMap, that topics have as many partitions as there are
// lanes. It also writes the chart's README from its values.
//
// The package has tests only. They need helm and kubeconform on the PATH; `make test-helm` installs them.
package chart
