package kafkatest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are taken below the ranges for outgoing connections, which begin at 32768 on Linux and at 49152 elsewhere.
const (
	lowestPort  = 15_000
	highestPort = 32_000
)

type ports struct{ client, internal, controller int }

// freePorts finds the ports for n brokers. It holds them all open until it has found the last, so that it finds none
// twice. Another process might take one before the broker starts. Start then fails and says so.
func freePorts(n int) (found []ports, err error) {
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	next := func() int {
		for range 1000 {
			port := lowestPort + rand.IntN(highestPort-lowestPort)
			l, err := net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
			if err == nil {
				held = append(held, l)
				return port
			}
		}
		return 0
	}
	for range n {
		p := ports{next(), next(), next()}
		if p.client == 0 || p.internal == 0 || p.controller == 0 {
			return nil, fmt.Errorf("no free port between %d and %d on %s", lowestPort, highestPort, loopback)
		}
		found = append(found, p)
	}
	return found, nil
}
