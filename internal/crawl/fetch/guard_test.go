package fetch

import (
	"net/netip"
	"testing"
)

func TestPublic(t *testing.T) {
	for address, want := range map[string]bool{
		"93.184.216.34": true, "8.8.8.8": true, "2606:4700::6810:84e5": true, "::ffff:8.8.8.8": true,
		"127.0.0.1": false, "127.8.8.8": false, "::1": false, "0.0.0.0": false, "::": false, "0.1.2.3": false,
		"10.1.2.3": false, "172.16.0.1": false, "172.31.255.255": false, "172.32.0.1": true, "192.168.1.1": false, "fd00:ec2::254": false,
		"169.254.169.254": false, "fe80::1": false, "fe80::1%eth0": false, "100.64.0.1": false, "100.100.100.200": false, "100.128.0.1": true,
		"168.63.129.16": false, "192.0.0.192": false, "198.18.0.1": false, "224.0.0.1": false, "239.1.1.1": false, "ff02::1": false,
		"240.0.0.1": false, "255.255.255.255": false, "::ffff:127.0.0.1": false, "::ffff:169.254.169.254": false, "::ffff:10.0.0.1": false,
		"64:ff9b::7f00:1": false, "64:ff9b:1::a00:1": false, "64:ff9b::a9fe:a9fe": false, "2002:7f00:1::": false, "2001:0:4136:e378::1": false,
		"2001:db8::1": false, "::7f00:1": false, "3fff::1": false, "4000::1": false,
	} {
		if got := public(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %t", address, got)
		}
	}
	if public(netip.Addr{}) {
		t.Error("no address at all is public")
	}
}
