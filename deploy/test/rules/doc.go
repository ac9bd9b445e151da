// Package rules tests the alert rules and the Grafana dashboard with Prometheus' own packages. Every rule must be
// valid, fire on series that it is for and stay quiet on those of a healthy run. Every query of the dashboard must
// parse, and every metric in them must be one that pairstream reports.
//
// The package has tests only.
package rules
