package chart

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pod is a Pod or the template of one.
type pod struct {
	of     object
	labels map[string]string
	spec   object
}

func pods(objects []object) (found []pod) {
	for _, o := range objects {
		switch o.kind() {
		case "Pod":
			found = append(found, pod{o, o.labels("metadata", "labels"), o.sub("spec")})
		case "Deployment", "StatefulSet", "Job":
			found = append(found, pod{o, o.labels("spec", "template", "metadata", "labels"), o.sub("spec", "template", "spec")})
		}
	}
	return found
}

// containers returns the chart's own. Those that run before them are the user's.
func (p pod) containers() (found []object) {
	for _, c := range p.spec.list("containers") {
		found = append(found, c.(map[string]any))
	}
	return found
}

// torch reports whether torchrun is what the Pod runs. It has no HTTP server, and ends when a rank does.
func (p pod) torch() bool {
	command := p.containers()[0].list("command")
	return len(command) == 1 && command[0] == "torchrun"
}

// console reports whether the Pod is the console's. It is no stage: it joins no group, and answers at one port.
func (p pod) console() bool { return p.labels["app.kubernetes.io/component"] == "console" }

// serves reports whether the Pod is one of a stage, and not a Job or a test.
func (p pod) serves() bool { return p.of.kind() == "Deployment" || p.of.kind() == "StatefulSet" }

func TestStages(t *testing.T) {
	want := map[string]string{
		"encoder": "Deployment", "grouper": "Deployment", "discriminator": "Deployment",
		"indexer": "StatefulSet", "trainer": "StatefulSet",
	}
	eachCase(t, func(t *testing.T, objects []object) {
		for stage, kind := range want {
			o := find(objects, kind, fullname+"-"+stage)
			if o == nil {
				t.Errorf("%s %s is missing", kind, stage)
				continue
			}
			p := pod{spec: o.sub("spec", "template", "spec")}
			if disk := len(o.list("spec", "volumeClaimTemplates")) == 1; disk != (stage == "trainer" && !p.torch()) {
				t.Errorf("%s: has a disk: %v", stage, disk)
			}
			// A Pod beyond the number of lanes never becomes ready. An update that starts one first would wait for ever.
			if surge := o.at("spec", "strategy", "rollingUpdate", "maxSurge"); kind == "Deployment" && surge != float64(0) {
				t.Errorf("%s: an update starts %v Pods more", stage, surge)
			}
			if find(objects, "PodDisruptionBudget", o.name()) == nil {
				t.Errorf("%s: no PodDisruptionBudget", stage)
			}
			if command := p.containers()[0].list("command"); !p.torch() && (len(command) != 1 || command[0] != "/usr/local/bin/"+stage) {
				t.Errorf("%s: command %v", stage, command)
			}
		}
	})
}

func TestContainersAreConfined(t *testing.T) {
	eachCase(t, func(t *testing.T, objects []object) {
		for _, p := range pods(objects) {
			if p.spec.at("securityContext", "runAsNonRoot") != true || p.spec.at("securityContext", "runAsUser") == float64(0) ||
				p.spec.text("securityContext", "seccompProfile", "type") != "RuntimeDefault" {
				t.Errorf("%s: may run as root, or without seccomp", p.of.id())
			}
			if p.spec.at("automountServiceAccountToken") != false || p.spec.at("hostNetwork") != nil || p.spec.at("hostPID") != nil {
				t.Errorf("%s: gets a token or the host's namespaces", p.of.id())
			}
			for _, c := range p.containers() {
				checkContainer(t, p, c)
			}
		}
	})
}

func checkContainer(t *testing.T, p pod, c object) {
	t.Helper()
	at := p.of.id() + "/" + c.text("name")
	s := c.sub("securityContext")
	drop := s.list("capabilities", "drop")
	if s["allowPrivilegeEscalation"] != false || s["readOnlyRootFilesystem"] != true || len(drop) != 1 || drop[0] != "ALL" {
		t.Errorf("%s: security context %v", at, s)
	}
	for _, bound := range []string{"requests", "limits"} {
		for _, resource := range []string{"cpu", "memory"} {
			if c.text("resources", bound, resource) == "" {
				t.Errorf("%s: no %s of %s", at, bound, resource)
			}
		}
	}
	port, path := "health", "/readyz"
	if p.console() {
		port, path = "console", "/healthz"
	}
	for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
		if p.serves() && !p.torch() && c.text(probe, "httpGet", "port") != port {
			t.Errorf("%s: no %s", at, probe)
		}
	}
	if ready := c.text("readinessProbe", "httpGet", "path"); p.serves() && !p.torch() && ready != path {
		t.Errorf("%s: readiness is asked at %q", at, ready)
	}
	image := c.text("image")
	if strings.HasSuffix(image, ":latest") || strings.HasSuffix(image, ":") || !strings.ContainsAny(image, ":@") {
		t.Errorf("%s: image %q has no fixed version", at, image)
	}
	mounts := map[any]bool{}
	for _, m := range c.list("volumeMounts") {
		mounts[m.(map[string]any)["name"]] = true
	}
	for _, v := range p.spec.list("volumes") {
		delete(mounts, v.(map[string]any)["name"])
	}
	for _, v := range p.of.list("spec", "volumeClaimTemplates") {
		delete(mounts, object(v.(map[string]any)).text("metadata", "name"))
	}
	if len(mounts) > 0 {
		t.Errorf("%s: mounts without a volume: %v", at, mounts)
	}
}

// Every part takes what a cluster adds to its Pods.
func TestWhatAClusterAdds(t *testing.T) {
	parts := 0
	for _, p := range pods(render(t, cases["added"])) {
		if !p.serves() {
			continue
		}
		parts++
		at := p.of.id()
		if p.labels["team"] != "vision" || p.labels["app.kubernetes.io/component"] == "" {
			t.Errorf("%s: labels %v", at, p.labels)
		}
		if p.spec.text("priorityClassName") != "training" || p.spec.text("runtimeClassName") != "nvidia" {
			t.Errorf("%s: priority %q, runtime %q", at, p.spec.text("priorityClassName"), p.spec.text("runtimeClassName"))
		}
		if init := p.spec.list("initContainers"); len(init) != 1 || object(init[0].(map[string]any)).text("name") != "fetch" {
			t.Errorf("%s: containers before its own: %v", at, init)
		}
		named := func(list []any, name string) bool {
			return slices.ContainsFunc(list, func(v any) bool { return object(v.(map[string]any)).text("name") == name })
		}
		if c := p.spec.list("containers")[0].(map[string]any); !named(p.spec.list("volumes"), "weights") || !named(object(c).list("volumeMounts"), "weights") {
			t.Errorf("%s: the further volume is missing, or not mounted", at)
		}
	}
	if parts != 7 {
		t.Errorf("%d parts, want 7", parts)
	}
}

func TestGPUs(t *testing.T) {
	for _, p := range pods(render(t, cases["gpu"])) {
		if !p.serves() {
			continue
		}
		stage := p.labels["app.kubernetes.io/component"]
		want := map[string]any{"encoder": float64(1), "indexer": float64(1), "discriminator": float64(1), "trainer": float64(8)}[stage]
		c := p.containers()[0]
		if got := c.at("resources", "limits", "nvidia.com/gpu"); got != want {
			t.Errorf("%s: %v GPUs, want %v", stage, got, want)
		}
		if selected := p.spec.text("nodeSelector", "accelerator") == "h100" && len(p.spec.list("tolerations")) == 1; selected != (stage == "encoder") {
			t.Errorf("%s: is sent to nodes %v, tolerates %v", stage, p.spec["nodeSelector"], p.spec["tolerations"])
		}
		if onGPU := strings.HasSuffix(c.text("image"), "-cuda"); onGPU != (want != nil) {
			t.Errorf("%s: image %s", stage, c.text("image"))
		}
	}
}

// With kind torch every Pod is a node of torchrun's. They meet at the first Pod, which the headless Service names, and
// may reach one another on any port.
func TestTorchTrainer(t *testing.T) {
	objects := render(t, cases["torch"])
	set := find(objects, "StatefulSet", fullname+"-trainer")
	p := pod{set, set.labels("spec", "template", "metadata", "labels"), set.sub("spec", "template", "spec")}
	c := p.containers()[0]
	service := find(objects, "Service", set.text("spec", "serviceName"))
	first := set.name() + "-0." + service.name()
	want := []any{
		"--nnodes=2", "--node_rank=$(NODE_RANK)", "--nproc_per_node=4", "--master_addr=" + first, "--master_port=29500",
		"/examples/clip.py", "--checkpoints", "/checkpoints",
	}
	if !p.torch() || !slices.Equal(c.list("args"), want) || set.at("spec", "replicas") != float64(2) {
		t.Errorf("%v Pods of %v %v, want 2 of %v", set.at("spec", "replicas"), c.list("command"), c.list("args"), want)
	}
	if image := c.text("image"); image != "registry.example/pairstream-torch:v1" {
		t.Errorf("image %s", image)
	}
	rank := object(c.list("env")[0].(map[string]any))
	if rank.text("name") != "NODE_RANK" || rank.text("valueFrom", "fieldRef", "fieldPath") != "metadata.labels['apps.kubernetes.io/pod-index']" {
		t.Errorf("the rank comes from %v", rank)
	}
	if service.text("spec", "clusterIP") != "None" || service.at("spec", "publishNotReadyAddresses") != true {
		t.Errorf("Pods meet through Service %v, want a headless one that does not wait for them", service.sub("spec"))
	}
	if gpus := c.at("resources", "limits", "nvidia.com/gpu"); gpus != float64(4) {
		t.Errorf("%v GPUs for 4 ranks", gpus)
	}
	var disk object
	for _, v := range p.spec.list("volumes") {
		if object(v.(map[string]any)).text("name") == "disk" {
			disk = v.(map[string]any)
		}
	}
	if disk.text("persistentVolumeClaim", "claimName") != "checkpoints" {
		t.Errorf("checkpoints are on %v", disk)
	}
	data := find(objects, "ConfigMap", fullname+"-trainer").sub("data")
	for _, name := range []string{"TRAIN_INIT", "CHECKPOINT_DIR", "DEVICE"} {
		if data.text(name) != "" {
			t.Errorf("the trainer in PyTorch is given %s, which it does not read", name)
		}
	}
	policy := find(objects, "NetworkPolicy", fullname+"-ranks")
	for _, way := range [][2]string{{"ingress", "from"}, {"egress", "to"}} {
		rule := object(policy.list("spec", way[0])[0].(map[string]any))
		peer := object(rule.list(way[1])[0].(map[string]any))
		if rule.list("ports") != nil || !selects(peer.labels("podSelector", "matchLabels"), p.labels) {
			t.Errorf("%s of ranks: %v", way[0], rule)
		}
	}
	if policy := find(render(t, ""), "NetworkPolicy", fullname+"-ranks"); policy != nil {
		t.Error("the built-in trainer's Pods may be reached on any port")
	}
	single := find(render(t, "trainer: {kind: torch}"), "StatefulSet", fullname+"-trainer")
	args := pod{spec: single.sub("spec", "template", "spec")}.containers()[0].list("args")
	if len(single.list("spec", "volumeClaimTemplates")) != 1 || !slices.Contains(args, any("--nproc_per_node=1")) {
		t.Errorf("a lone Pod without GPUs has %v and %v", single.list("spec", "volumeClaimTemplates"), args)
	}
}

// TestEncoderFollowsTheTrainer reads the trainer's folder in the encoder's Pods, and does not write there.
func TestEncoderFollowsTheTrainer(t *testing.T) {
	const shared = "trainer: {volume: {persistentVolumeClaim: {claimName: weights}}}"
	objects := render(t, "encoder: {checkpoint: '@latest'}\n"+shared)
	set := find(objects, "Deployment", fullname+"-encoder").sub("spec", "template", "spec")
	var mount, volume object
	for _, m := range (pod{spec: set}).containers()[0].list("volumeMounts") {
		if object(m.(map[string]any)).text("mountPath") == "/checkpoints" {
			mount = m.(map[string]any)
		}
	}
	for _, v := range set.list("volumes") {
		if object(v.(map[string]any)).text("name") == mount.text("name") {
			volume = v.(map[string]any)
		}
	}
	if mount.at("readOnly") != true || volume.text("persistentVolumeClaim", "claimName") != "weights" {
		t.Errorf("mount %v of volume %v", mount, volume)
	}
	encoder, trainer := find(objects, "ConfigMap", fullname+"-encoder").sub("data"), find(objects, "ConfigMap", fullname+"-trainer").sub("data")
	for _, c := range []struct{ name, got, want string }{
		{"the encoder's weights", encoder.text("ENCODER_CHECKPOINT"), "@latest"},
		{"the trainer's ENCODER_CHECKPOINT", trainer.text("ENCODER_CHECKPOINT"), "@latest"},
		{"the encoder's folder", encoder.text("CHECKPOINT_DIR"), trainer.text("CHECKPOINT_DIR")},
	} {
		if c.got != c.want || c.got == "" {
			t.Errorf("%s: %q, want %q", c.name, c.got, c.want)
		}
	}
}

// Several Pods of the built-in trainer are ranks of one model, however few the lanes. They meet at the first Pod, and
// reach one another at one port that no other Pod may reach. They are replaced together.
func TestRanksOfTheTrainer(t *testing.T) {
	objects := render(t, cases["ranks"])
	set := find(objects, "StatefulSet", fullname+"-trainer")
	service := find(objects, "Service", set.text("spec", "serviceName"))
	if set.at("spec", "replicas") != float64(4) || set.text("spec", "updateStrategy", "type") != "OnDelete" || service.at("spec", "publishNotReadyAddresses") != true {
		t.Errorf("%v Pods, updated %v, through Service %v", set.at("spec", "replicas"), set.at("spec", "updateStrategy"), service.sub("spec"))
	}
	data := find(objects, "ConfigMap", fullname+"-trainer").sub("data")
	for name, want := range map[string]string{"WORLD_SIZE": "4", "MASTER_ADDR": set.name() + "-0." + service.name(), "MASTER_PORT": "29500", "RANK_PORT": "29500"} {
		if got := data.text(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	p := pod{set, set.labels("spec", "template", "metadata", "labels"), set.sub("spec", "template", "spec")}
	rank := object(p.containers()[0].list("env")[0].(map[string]any))
	if rank.text("name") != "RANK" || rank.text("valueFrom", "fieldRef", "fieldPath") != "metadata.labels['apps.kubernetes.io/pod-index']" {
		t.Errorf("the rank comes from %v", rank)
	}
	policy := find(objects, "NetworkPolicy", fullname+"-ranks")
	for _, way := range [][2]string{{"ingress", "from"}, {"egress", "to"}} {
		rule := object(policy.list("spec", way[0])[0].(map[string]any))
		peer := object(rule.list(way[1])[0].(map[string]any))
		port := object(rule.list("ports")[0].(map[string]any))
		if len(rule.list("ports")) != 1 || port.text("port") != "rendezvous" || !selects(peer.labels("podSelector", "matchLabels"), p.labels) {
			t.Errorf("%s of ranks: %v", way[0], rule)
		}
	}
}

var secretName = regexp.MustCompile(`(?i)password|secret|token|credential|private|access_key`)

func TestSecretsAreNotInConfigMaps(t *testing.T) {
	eachCase(t, func(t *testing.T, objects []object) {
		for _, o := range objects {
			if o.kind() == "Secret" {
				t.Errorf("%s: the chart makes no Secret, it is told their names", o.id())
			}
			if o.kind() != "ConfigMap" {
				continue
			}
			for key := range o.sub("data") {
				if secretName.MatchString(key) {
					t.Errorf("%s holds %s", o.id(), key)
				}
			}
		}
		for _, p := range pods(objects) {
			for _, c := range p.containers() {
				for _, e := range c.list("env") {
					entry := object(e.(map[string]any))
					if secretName.MatchString(entry.text("name")) && entry.text("valueFrom", "secretKeyRef", "name") == "" {
						t.Errorf("%s: %s does not come from a Secret", p.of.id(), entry.text("name"))
					}
				}
			}
		}
	})
}

// TestEachPartHasItsSecret gives parts Secrets of their own. They get no other one, and what needs none gets none.
func TestEachPartHasItsSecret(t *testing.T) {
	objects := render(t, `
secretName: bucket
indexer: {livePort: 9100, secretName: of-indexer}
trainer: {secretName: of-trainer}
console: {enabled: true, secretName: of-console}
ingest: {enabled: true, secretName: of-ingest}
spool: {volume: {emptyDir: {}}}
`)
	want := map[string]string{
		"encoder": "bucket", "indexer": "of-indexer", "grouper": "", "discriminator": "bucket", "trainer": "of-trainer", "console": "of-console", "ingest": "of-ingest",
		"topics": "", "check": "",
	}
	found := map[string]string{}
	for _, p := range pods(objects) {
		for _, c := range p.containers() {
			var names []string
			for _, e := range c.list("envFrom") {
				if name := object(e.(map[string]any)).text("secretRef", "name"); name != "" {
					names = append(names, name)
				}
			}
			found[c.text("name")] = strings.Join(names, " ")
		}
	}
	if !maps.Equal(found, want) {
		t.Errorf("Secrets %v, want %v", found, want)
	}
	if own := render(t, "grouper: {secretName: of-grouper}"); len(own) == 0 || !strings.Contains(fmt.Sprint(own), "of-grouper") {
		t.Error("the grouper has no Secret of its own")
	}
}
