// Package rules tests the alert rules and the Grafana dashboard with Prometheus' own packages: every rule is valid,
// fires on series that it is for and stays quiet on those of a healthy run; every query of the dashboard parses; and
// every metric in them is one that pairstream reports.
//
// The package has tests only.
package rules
