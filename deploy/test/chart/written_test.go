package chart

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// commands returns the indented lines of a document that begin with prefix, with those that continue them.
func commands(t *testing.T, path, prefix string) (found []string) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	joined := strings.ReplaceAll(string(text), "\\\n", " ")
	for line := range strings.Lines(joined) {
		if command, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "    "); ok && strings.HasPrefix(command, prefix) {
			found = append(found, command)
		}
	}
	return found
}

// Every installation command of the documents renders, with `helm template` in place of a cluster.
func TestWrittenCommands(t *testing.T) {
	const root = "../../.."
	for file, least := range map[string]int{"README.md": 1, "docs/deploy.md": 3, "deploy/helm/pairstream/README.md": 2} {
		written := commands(t, filepath.Join(root, file), "helm install ")
		if len(written) < least {
			t.Errorf("%s: %d commands that install, want %d", file, len(written), least)
		}
		for _, command := range written {
			t.Run(file, func(t *testing.T) {
				cmd := exec.Command("sh", "-c", strings.Replace(command, "helm install ", "helm template --kube-version "+kubeVersion+" ", 1))
				cmd.Dir = root
				out, err := cmd.CombinedOutput()
				if err != nil || !strings.Contains(string(out), "kind: StatefulSet") {
					t.Errorf("%s: %v\n%s", command, err, out)
				}
			})
		}
	}
}
