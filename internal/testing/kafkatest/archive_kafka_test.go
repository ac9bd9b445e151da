//go:build kafka

package kafkatest

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/internal/testing/must"
)

// TestServersLoadArchivedClasses wants Java to take a class of the server's from the archive.
func TestServersLoadArchivedClasses(t *testing.T) {
	c := &Cluster{install: must.Get(install(t.Context()))(t)}
	args := append(c.javaArguments("-Xmx128m"), "-Xlog:class+load", "kafka.tools.StorageTool", "random-uuid")
	out := must.Get(exec.CommandContext(t.Context(), c.install.java, args...).CombinedOutput())(t)
	if !strings.Contains(string(out), "kafka.server.KafkaConfig source: shared objects file (top)") {
		t.Errorf("kafka.server.KafkaConfig does not come from the archive:\n%s", lastLines(out, 20))
	}
}
