package chart

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/pairstream/pairstream/schemas"
)

// ports lists the ports of a rule of a NetworkPolicy.
func ports(rule any) (found []string) {
	for _, p := range object(rule.(map[string]any)).list("ports") {
		found = append(found, fmt.Sprint(p.(map[string]any)["port"]))
	}
	return found
}

// The rule opens the ports of the buckets' endpoints.
func TestEgressFollowsTheBuckets(t *testing.T) {
	tests := map[string]struct {
		values string
		want   []string // the ports of the last rule; nil: no rule for buckets
	}{
		"none":               {"", nil},
		"folder":             {`bucket: {roots: ["file:///data"]}`, nil},
		"cloud":              {`bucket: {roots: ["s3://a?region=x", "gs://b"]}`, []string{"443"}},
		"endpoint":           {`bucket: {roots: ["s3://a?endpoint=http://minio:9000&region=x"]}`, []string{"9000"}},
		"escaped":            {`bucket: {roots: ["s3://a?region=x&endpoint=https%3A%2F%2Fminio%3A9443%2F"]}`, []string{"9443"}},
		"without a port":     {`bucket: {roots: ["s3://a?endpoint=http://minio.svc/", "s3://b?endpoint=https://r2"]}`, []string{"80", "443"}},
		"both":               {`bucket: {roots: ["s3://a?endpoint=http://minio:9000", "gs://b"]}`, []string{"9000", "443"}},
		"settings":           {`{bucket: {roots: ["s3://a", "gs://b"]}, settings: {AWS_ENDPOINT_URL: "http://minio:9000"}}`, []string{"9000", "443"}},
		"of the service":     {`{bucket: {roots: ["s3://a"]}, encoder: {settings: {AWS_ENDPOINT_URL_S3: "http://minio:9100"}}}`, []string{"9100"}},
		"uploads":            {`{bucket: {roots: ["file:///data"]}, trainer: {settings: {CHECKPOINT_UPLOAD: "s3://copies/run/"}}}`, []string{"443"}},
		"uploads elsewhere":  {`{bucket: {roots: ["s3://a?endpoint=http://minio:9000"]}, trainer: {settings: {CHECKPOINT_UPLOAD: "gs://b/run/"}}}`, []string{"9000", "443"}},
		"uploads by options": {`{settings: {CHECKPOINT_UPLOAD: "s3://a/run/?endpoint=http://minio:9000&region=x"}}`, []string{"9000"}},
		"uploads by setting": {`{settings: {AWS_ENDPOINT_URL: "http://minio:9000"}, trainer: {settings: {CHECKPOINT_UPLOAD: "s3://a/run/"}}}`, []string{"9000"}},
		"uploads in a root":  {`{bucket: {roots: ["s3://a/b/?endpoint=http://minio:9000"]}, trainer: {settings: {CHECKPOINT_UPLOAD: "s3://a/b"}}}`, []string{"9000"}},
		"uploads beside one": {`{bucket: {roots: ["s3://a/b?endpoint=http://minio:9000"]}, trainer: {settings: {CHECKPOINT_UPLOAD: "s3://a/bc/"}}}`, []string{"9000", "443"}},
		"copies in a folder": {`{trainer: {settings: {CHECKPOINT_UPLOAD: "/checkpoints/copies"}}}`, nil},
		"copies of images":   {`{bucket: {roots: ["s3://a?endpoint=http://minio:9000"]}, indexer: {settings: {REPACK_ROOT: "s3://a/copies"}}}`, []string{"9000"}},
		"segments":           {`{bucket: {roots: ["s3://a"]}, settings: {SEGMENTS_ROOT: "s3://b/segments?endpoint=http://minio:9001"}}`, []string{"443", "9001"}},
		"copies by options":  {`{bucket: {roots: ["s3://a"]}, settings: {REPACK_ROOT: "s3://a/copies?endpoint=https://minio:9443"}}`, []string{"443", "9443"}},
		"held-out pairs":     {`{trainer: {settings: {EVAL_EVERY: 1000, EVAL_DATA: "/data/held-out, gs://held-out/2026/"}}}`, []string{"443"}},
		"all of the trainer": {cases["copies"], []string{"443", "9443"}},
		"identity by tokens": {`{bucket: {roots: ["s3://a?endpoint=http://minio:9000"]}, serviceAccount: {annotations: {role: x}}}`, []string{"9000", "443"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			rules := find(render(t, tt.values), "NetworkPolicy", fullname).list("spec", "egress")
			const dnsAndKafka = 2
			if len(rules) == dnsAndKafka && tt.want == nil {
				return
			}
			if len(rules) != dnsAndKafka+1 || !slices.Equal(ports(rules[dnsAndKafka]), tt.want) {
				t.Errorf("rules %v, want a third with ports %v", rules, tt.want)
			}
		})
	}
}

// Live search answers the namespace, or those whom the values name, and never everybody.
func TestLiveSearchIsNotOpenToAll(t *testing.T) {
	for values, want := range map[string]string{
		"secretName: x\nindexer: {livePort: 9100}": "map[podSelector:map[]]",
		"secretName: x\nindexer: {livePort: 9100}\nnetworkPolicies: {liveFrom: [{podSelector: {matchLabels: {app: search}}}]}": "map[podSelector:map[matchLabels:map[app:search]]]",
	} {
		rule := find(render(t, values), "NetworkPolicy", fullname+"-live").list("spec", "ingress")[0]
		from := object(rule.(map[string]any)).list("from")
		if len(from) != 1 || fmt.Sprint(from[0]) != want {
			t.Errorf("%s: live search answers %v, want %s", values, from, want)
		}
	}
}

// stageUsers lists the users of stages, as suffixes of the release's name.
var stageUsers = []string{"-encoder", "-indexer", "-grouper", "-discriminator", "-trainer"}

// writers returns the Kafka users that may write what the catalogue says is written by somebody.
func writers(by string) []string {
	switch {
	case by == "all", by == "stages, operators":
		return append([]string{"-operator"}, stageUsers...)
	case by == "producers":
		return []string{"-producer", "-operator"}
	case by == "operators":
		return []string{"-operator"}
	case strings.HasPrefix(by, "trainer"):
		return []string{"-trainer"}
	}
	return []string{"-" + by}
}

// With Strimzi a user may write what the catalogue says, and nothing else.
func TestUsersWriteOnlyTheirTopics(t *testing.T) {
	for namespace, values := range map[string]string{"prod": cases["strimzi"], "": "strimzi: {enabled: true}"} {
		objects := render(t, values)
		want := map[string][]string{"": nil, "-reader": nil}
		for _, info := range schemas.Catalogue() {
			for _, user := range writers(info.WrittenBy) {
				want[user] = append(want[user], info.Topic.Name(namespace))
			}
		}
		for user, topics := range want {
			u := find(objects, "KafkaUser", fullname+user)
			if u == nil {
				t.Fatalf("no user %s", user)
			}
			got := map[string]bool{}
			for _, a := range u.list("spec", "authorization", "acls") {
				acl := object(a.(map[string]any))
				if slices.Contains(acl.list("operations"), any("Write")) {
					if acl.text("resource", "patternType") != "literal" || acl.text("resource", "name") == "*" {
						t.Errorf("user %q may write to %v", user, acl.sub("resource"))
					}
					got[acl.text("resource", "name")] = true
				}
			}
			slices.Sort(topics)
			if !slices.Equal(slices.Sorted(maps.Keys(got)), topics) {
				t.Errorf("user %q writes %v, want %v", user, slices.Sorted(maps.Keys(got)), topics)
			}
		}
	}
}

// A stage's Pods run as the stage's user, with its password, and belong to the group that this user may join.
func TestPodsAreTheirUsers(t *testing.T) {
	objects := render(t, cases["strimzi"])
	for _, p := range pods(objects) {
		stage := p.labels["app.kubernetes.io/component"]
		user, set := fullname, find(objects, "ConfigMap", fullname).text("data", "KAFKA_SASL_USER")
		switch {
		case p.console():
			user += "-operator"
			set = find(objects, "ConfigMap", fullname+"-console").text("data", "KAFKA_SASL_USER")
		case stage == "ingest": // a producer, which joins no group
			user += "-producer"
			set = find(objects, "ConfigMap", fullname+"-ingest").text("data", "KAFKA_SASL_USER")
		case p.serves():
			user += "-" + stage
			set = find(objects, "ConfigMap", user).text("data", "KAFKA_SASL_USER")
			if acls := fmt.Sprint(find(objects, "KafkaUser", user).list("spec", "authorization", "acls")); !strings.Contains(acls, "name:prod.pairstream-"+stage+" patternType:literal type:group") {
				t.Errorf("%s may not join its group: %s", user, acls)
			}
		}
		if set != user {
			t.Errorf("%s: user %s, want %s", p.of.id(), set, user)
		}
		for _, c := range p.containers() {
			if env := fmt.Sprint(c.list("env")); !strings.Contains(env, "name:"+user+"]") {
				t.Errorf("%s: the password is not that of %s: %s", p.of.id(), user, env)
			}
		}
	}
}

// With Strimzi, topics have what `pairstream topics create` gives them.
func TestTopicsOfStrimzi(t *testing.T) {
	want := map[string]string{
		"retention.bytes": "-1", "message.timestamp.type": "LogAppendTime",
		"unclean.leader.election.enable": "false", "min.insync.replicas": "2",
	}
	for _, o := range render(t, cases["strimzi"]) {
		if o.kind() != "KafkaTopic" {
			continue
		}
		want["cleanup.policy"] = "delete"
		if schemas.Topic(strings.TrimPrefix(o.name(), fullname+"-")).Compacted() {
			want["cleanup.policy"] = "compact"
		}
		want["retention.ms"] = cmp.Or(map[string]string{"scored": "8.64e+07", "pairs": "-1"}[strings.TrimPrefix(o.name(), fullname+"-")], "2.592e+08")
		for key, value := range want {
			if got := fmt.Sprint(o.at("spec", "config", key)); got != value {
				t.Errorf("%s: %s is %s, want %s", o.id(), key, got, value)
			}
		}
	}
}

// A producer leads its watchers by a group, and asks how far the encoder is.
func TestProducersSeeWhatTheyWaitFor(t *testing.T) {
	acls := fmt.Sprint(find(render(t, cases["strimzi"]), "KafkaUser", fullname+"-producer").list("spec", "authorization", "acls"))
	for group, operations := range map[string]string{"producer": "[Read Describe]", "encoder": "[Describe]"} {
		if want := "map[operations:" + operations + " resource:map[name:prod.pairstream-" + group + " patternType:literal type:group]]"; !strings.Contains(acls, want) {
			t.Errorf("no %s in %s", want, acls)
		}
	}
}

// The front door reaches the public internet where it downloads images, and nothing inside of networks.
func TestFrontDoorReachesNoNetwork(t *testing.T) {
	for urls, want := range map[string]int{"false": 0, "true": 1} {
		policy := find(render(t, "secretName: token\nspool: {volume: {emptyDir: {}}}\ningest: {enabled: true, urls: "+urls+"}"), "NetworkPolicy", fullname+"-ingest")
		rules := policy.list("spec", "egress")
		if len(rules) != want {
			t.Errorf("urls %s: egress %v", urls, rules)
		}
		if text := fmt.Sprint(rules); want == 1 && (!strings.Contains(text, "169.254.0.0/16") || !strings.Contains(text, "10.0.0.0/8")) {
			t.Errorf("urls %s: egress %v", urls, rules)
		}
	}
}
