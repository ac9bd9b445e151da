// Package hostile is a web of hosts that do what strangers' servers may do to a crawl. It is for tests only.
//
// [New] starts the hosts on loopback, each on a port of its own, and [Web.URLs] gives addresses of them: slow and
// endless heads and bodies, wrong lengths, bombs of every encoding, resets, robots.txt of every kind, redirects in
// circles and across hosts, TLS that stalls, and names whose addresses change. None of them gives an image. [Web.Names]
// is the address of the name server that a process must ask for the names of the last kind.
package hostile
