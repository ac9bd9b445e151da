package fetch

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"
	"time"
)

// errAddress means that a host has an address inside somebody's network.
var errAddress = errors.New("the address is not one of the public internet")

// inside lists the networks that are no part of the public internet, besides those that netip names. Of IPv6, only
// 2000::/3 is public, so the translations of IPv4 (64:ff9b::/96) and local addresses (fc00::/7) are outside of it.
var inside = prefixes(
	"0.0.0.0/8", "100.64.0.0/10", "168.63.129.16/32", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
	"203.0.113.0/24", "240.0.0.0/4", "2001::/23", "2001:db8::/32", "2002::/16", "3fff::/20",
)

var publicIPv6 = netip.MustParsePrefix("2000::/3")

func prefixes(texts ...string) (out []netip.Prefix) {
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

// public reports whether an address is one of the public internet.
func public(a netip.Addr) bool {
	if !a.IsValid() || a.Zone() != "" {
		return false
	}
	a = a.Unmap()
	if !a.IsGlobalUnicast() || a.IsPrivate() || a.Is6() && !publicIPv6.Contains(a) {
		return false
	}
	for _, p := range inside {
		if p.Contains(a) {
			return false
		}
	}
	return true
}

// connectTimeout bounds the time for a connection.
const connectTimeout = 10 * time.Second

// guardedDialer makes connections to the public internet alone. It looks at the address that is connected to, so neither
// a redirect nor an answer of DNS that changes leads elsewhere.
func guardedDialer(allowLoopback bool, timeout time.Duration) *net.Dialer {
	return &net.Dialer{Timeout: timeout, ControlContext: func(_ context.Context, network, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("%w: %q", errAddress, address)
		}
		switch ip := at.Addr().Unmap(); {
		case network != "tcp4" && network != "tcp6":
			return fmt.Errorf("%w: network %s", errAddress, network)
		case allowLoopback && ip == netip.AddrFrom4([4]byte{127, 0, 0, 1}):
			return nil
		case !public(at.Addr()):
			return fmt.Errorf("%w: %s", errAddress, ip)
		}
		return nil
	}}
}
