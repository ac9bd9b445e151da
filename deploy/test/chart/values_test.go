package chart

import (
	"strings"
	"testing"
)

// A wrong value is refused before anything is installed, with its name and what it should be.
func TestWrongValuesAreRefused(t *testing.T) {
	tests := map[string]struct {
		values string
		says   []string
	}{
		"no lanes":            {"lanes: 0", []string{"/lanes", "want 1"}},
		"lanes as text":       {"lanes: many", []string{"/lanes", "want integer"}},
		"unknown name":        {"encoder: {replica: 2}", []string{"/encoder", "'replica' not allowed"}},
		"strategy":            {"grouper: {strategy: best}", []string{"/grouper/strategy", "'random', 'grit', 'gns'"}},
		"broker":              {"kafka: {brokers: [kafka]}", []string{"/kafka/brokers/0", "'kafka'"}},
		"mechanism":           {"kafka: {sasl: {mechanism: plain}}", []string{"/kafka/sasl/mechanism", "'SCRAM-SHA-512'"}},
		"bucket root":         {"bucket: {roots: [/data]}", []string{"/bucket/roots/0", "'/data'"}},
		"digest":              {"image: {digest: abc}", []string{"/image/digest", "'abc'"}},
		"name of a setting":   {"settings: {batchSize: 3}", []string{"'batchSize'"}},
		"quantity":            {"trainer: {storage: big}", []string{"/trainer/storage", "'big'"}},
		"no memory limit":     {"trainer: {resources: {limits: null}}", []string{"/trainer/resources", "limits"}},
		"root":                {"podSecurityContext: {runAsUser: 0}", []string{"/podSecurityContext/runAsUser", "want 1"}},
		"privileged port":     {"indexer: {livePort: 80}", []string{"/indexer/livePort"}},
		"secret in settings":  {"settings: {AWS_SECRET_ACCESS_KEY: x}", []string{"settings.AWS_SECRET_ACCESS_KEY looks like a secret", "secretName"}},
		"epochs of one stage": {"grouper: {settings: {EPOCHS: 3}}", []string{"grouper.settings.EPOCHS would reach one stage", "put it into settings"}},
		"recipe of one stage": {"trainer: {settings: {RECIPE: tcl}}", []string{"trainer.settings.RECIPE would reach one stage", "put it into settings"}},
		"no brokers":          {"kafka: {brokers: []}", []string{"kafka.brokers is empty", "strimzi.enabled"}},
		"no password":         {"kafka: {sasl: {mechanism: PLAIN, user: bob}}", []string{"kafka.sasl.secret"}},
		"CA without TLS":      {"kafka: {tls: {caSecret: ca}}", []string{"no effect without kafka.tls.enabled"}},
		"live search open":    {"indexer: {livePort: 9100}", []string{"LIVE_TOKEN", "secretName"}},
		"console open":        {"console: {enabled: true}", []string{"CONSOLE_TOKEN", "console.userHeader"}},
		"front door open":     {"ingest: {enabled: true}\nspool: {volume: {emptyDir: {}}}", []string{"INGEST_TOKEN", "secretName"}},
		"door without spool":  {"ingest: {enabled: true}\nsecretName: token", []string{"spool.volume"}},
		"odd ranks":           {"trainer: {replicas: 3}", []string{"trainer.replicas is 3: want 1, 2, 4 or another power of two"}},
		"ranks open":          {"trainer: {replicas: 2}", []string{"trainer.replicas is 2: ranks need RANK_TOKEN in a Secret that secretName names"}},
		"ranks of torch":      {"trainer: {kind: torch, replicas: 2}", []string{"trainer.replicas is 2 with kind torch", "trainer.volume"}},
		"kind":                {"trainer: {kind: jax}", []string{"/trainer/kind", "'go', 'torch'"}},
		"nothing to follow":   {"encoder: {checkpoint: '@latest'}", []string{"encoder.checkpoint is @latest", "trainer.volume"}},
		"torch to follow": {
			"encoder: {checkpoint: '@latest'}\ntrainer: {kind: torch, volume: {emptyDir: {}}}", []string{"encoder.checkpoint is @latest", "trainer.kind go"},
		},
		"no command":  {"trainer: {kind: torch, command: []}", []string{"/trainer/command"}},
		"replication": {"strimzi: {enabled: true, replicas: 1}", []string{"kafka.replication is 3", "strimzi.replicas (1)"}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			_, problems, err := helm(t, "template", release, chartDir, "--kube-version", kubeVersion, "--values", valuesFile(t, test.values))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, part := range test.says {
				if !strings.Contains(problems, part) {
					t.Errorf("says %q, want %q in it", problems, part)
				}
			}
		})
	}
}
