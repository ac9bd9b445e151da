package kafkatest

import (
	"bytes"
	"os"
	"testing"
)

// logTail returns the end of the broker's log, or why it cannot be read.
func (b *broker) logTail(lines int) []byte {
	content, err := os.ReadFile(b.path("log"))
	if err != nil {
		return []byte(err.Error())
	}
	return lastLines(content, lines)
}

func (c *Cluster) showLogs(t testing.TB) {
	for _, b := range c.brokers {
		t.Logf("kafkatest: end of %s\n%s", b.path("log"), b.logTail(25))
		if err := os.RemoveAll(b.path("data")); err != nil {
			t.Logf("kafkatest: removing data: %v", err)
		}
	}
}

func lastLines(text []byte, n int) []byte {
	lines := bytes.Split(bytes.TrimRight(text, "\n"), []byte("\n"))
	return bytes.Join(lines[max(0, len(lines)-n):], []byte("\n"))
}
