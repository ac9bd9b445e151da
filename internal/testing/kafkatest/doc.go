// Package kafkatest runs Apache Kafka itself for tests: brokers in KRaft mode, started from Kafka's published Maven
// artifacts on the machine's Java. They use loopback ports and keep their data in a temporary folder. No Docker is
// needed.
//
//	cluster := kafkatest.Start(t, kafkatest.Options{})
//	cfg.Brokers = cluster.Brokers()
//	leader, err := cluster.Leader("embeddings", 0)
//	err = cluster.Kill(leader)      // SIGKILL
//	err = cluster.Restart(leader)
//
// Guarantees:
//
//  1. Start returns when every broker has joined and the cluster answers as a whole, not when a port is open. It has then
//     made the topic in which consumer groups are kept.
//  2. A broker keeps its ports and its data over Kill, Stop and Restart. Ports lie outside of the range from which
//     the kernel takes ports for outgoing connections, so nothing takes them while a broker is down.
//  3. No process is left behind: not by a test that fails, panics or is killed itself (see the launcher).
//  4. When the test fails, the last lines of every broker's log are shown, and the logs are kept.
//
// Each broker has three listeners. CLIENT is secured as the options say, and Brokers returns its addresses. INTERNAL is
// plaintext, for replication and for this package's own questions. The third is CONTROLLER. So a test that breaks or
// secures CLIENT can still ask who leads a partition.
//
// All methods are safe for concurrent use and return errors rather than failing the test, so that a test may call them
// from goroutines. The package is for tests only, and imports no other package of this repository.
package kafkatest
