{{/* How Kafka is reached: by values.kafka, or as the Strimzi objects of this chart offer it. */}}

{{- define "pairstream.strimziCluster" -}}
{{- printf "%s-kafka" (include "pairstream.fullname" .) -}}
{{- end -}}

{{/* YAML with brokers, tls, caSecret, caKey, clientSecret, certKey, keyKey, serverName, mechanism, user, secret, passwordKey. */}}
{{- define "pairstream.kafka" -}}
{{- $k := .Values.kafka -}}
{{- if .Values.strimzi.enabled -}}
brokers: {{ printf "%s-kafka-bootstrap:9093" (include "pairstream.strimziCluster" .) }}
tls: true
caSecret: {{ include "pairstream.strimziCluster" . }}-cluster-ca-cert
caKey: ca.crt
clientSecret: ""
certKey: ""
keyKey: ""
serverName: ""
mechanism: SCRAM-SHA-512
user: {{ include "pairstream.fullname" . }}
secret: {{ include "pairstream.fullname" . }}
passwordKey: password
{{- else -}}
{{- if not $k.brokers }}{{ fail "kafka.brokers is empty: name the brokers of your cluster, or set strimzi.enabled" }}{{ end -}}
{{- if and $k.sasl.mechanism (or (not $k.sasl.user) (not $k.sasl.secret)) }}{{ fail (printf "kafka.sasl.mechanism is %s: kafka.sasl.user and kafka.sasl.secret are needed too" $k.sasl.mechanism) }}{{ end -}}
{{- if and (not $k.tls.enabled) (or $k.tls.caSecret $k.tls.clientSecret $k.tls.serverName) }}{{ fail "kafka.tls.caSecret, clientSecret and serverName have no effect without kafka.tls.enabled" }}{{ end -}}
brokers: {{ join "," $k.brokers }}
tls: {{ $k.tls.enabled }}
caSecret: {{ $k.tls.caSecret | quote }}
caKey: {{ $k.tls.caKey }}
clientSecret: {{ $k.tls.clientSecret | quote }}
certKey: {{ $k.tls.certKey }}
keyKey: {{ $k.tls.keyKey }}
serverName: {{ $k.tls.serverName | quote }}
mechanism: {{ $k.sasl.mechanism | quote }}
user: {{ $k.sasl.user | quote }}
secret: {{ $k.sasl.secret | quote }}
passwordKey: {{ $k.sasl.passwordKey }}
{{- end -}}
{{- end -}}

{{/* Settings of every process, as lines of a ConfigMap. */}}
{{- define "pairstream.commonSettings" -}}
{{- $k := include "pairstream.kafka" . | fromYaml -}}
KAFKA_BROKERS: {{ $k.brokers | quote }}
KAFKA_REPLICATION: {{ .Values.kafka.replication | quote }}
KAFKA_MIN_INSYNC: {{ .Values.kafka.minInsync | quote }}
{{- if .Values.strimzi.enabled }}
{{- $keep := list (printf "%dh" (max 0 (int .Values.strimzi.retentionHours))) }}
{{- range $topic, $hours := .Values.strimzi.topicRetentionHours }}{{ $keep = append $keep (printf "%s=%dh" $topic (max 0 (int $hours))) }}{{ end }}
KAFKA_RETENTION: {{ join "," $keep | quote }}
{{- end }}
{{- if $k.tls }}
KAFKA_TLS: "true"
{{- with $k.serverName }}
KAFKA_TLS_SERVER_NAME: {{ . | quote }}
{{- end }}
{{- if $k.caSecret }}
KAFKA_TLS_CA: /etc/kafka-ca/{{ $k.caKey }}
{{- end }}
{{- if $k.clientSecret }}
KAFKA_TLS_CERT: /etc/kafka-client/{{ $k.certKey }}
KAFKA_TLS_KEY: /etc/kafka-client/{{ $k.keyKey }}
{{- end }}
{{- end }}
{{- with $k.mechanism }}
KAFKA_SASL: {{ . }}
KAFKA_SASL_USER: {{ $k.user | quote }}
{{- end }}
NAMESPACE: {{ .Values.topicNamespace | quote }}
LANES: {{ .Values.lanes | quote }}
SEED: {{ .Values.seed | int64 | quote }}
RECIPE: {{ .Values.recipe }}
{{- if not (hasKey .Values.settings "GROUP_SIZE") }}
GROUP_SIZE: {{ .Values.indexer.groupSize | int64 | quote }}
{{- end }}
{{- with .Values.grouper.epochs }}
EPOCHS: {{ . | int64 | quote }}
{{- end }}
{{- with .Values.grouper.strategy }}
STRATEGY: {{ . }}
{{- end }}
{{- with .Values.grouper.batchSize }}
BATCH_SIZE: {{ . | int64 | quote }}
{{- end }}
LOG_LEVEL: {{ .Values.log.level }}
LOG_FORMAT: {{ .Values.log.format }}
HTTP_ADDR: ":9090"
HEALTH_ADDR: ":9091"
{{- with .Values.bucket.roots }}
BUCKET_ROOTS: {{ concat . (ternary (list "file:///spool") (list) (not (empty $.Values.spool.volume))) | join "," | quote }}
{{- else }}{{ if .Values.spool.volume }}
BUCKET_ROOTS: file:///spool
{{- end }}{{ end }}
{{ include "pairstream.settings" (dict "root" . "of" "settings" "settings" .Values.settings) }}
{{- end -}}

{{/* Settings that the user wrote: dict "root" $ "of" name of the value "settings" map. Refused: a secret, and for one stage
     what all stages must read alike. */}}
{{- define "pairstream.settings" -}}
{{- $of := .of -}}
{{- range $name, $value := .settings }}
{{- if and (ne $of "settings") (has $name (list "RECIPE" "NAMESPACE" "LANES" "SEED" "GROUP_SIZE" "PAIRS" "EPOCHS" "STRATEGY" "BATCH_SIZE" "STEP_BATCHES" "QUEUE_SIZE" "SEARCH_SPACE")) }}{{ fail (printf "%s.%s would reach one stage, and the others would plan for another run: put it into settings" $of $name) }}{{ end }}
{{- if regexMatch "PASSWORD|SECRET|TOKEN|CREDENTIAL|ACCESS_KEY" $name }}{{ fail (printf "%s.%s looks like a secret: put it into a Secret and name that in secretName" $of $name) }}{{ end }}
{{ $name }}: {{ ternary (printf "%v" ($value | int64)) (toString $value) (and (kindIs "float64" $value) (eq (floor $value) $value)) | quote }}
{{- end }}
{{- end -}}

{{/* The password, as an entry of env: dict "root" $ "stage" name. With Strimzi every stage is a user of its own. */}}
{{- define "pairstream.password" -}}
{{- $k := include "pairstream.kafka" .root | fromYaml -}}
{{- if $k.mechanism }}
- name: KAFKA_SASL_PASSWORD
  valueFrom:
    secretKeyRef: {name: {{ $k.secret }}{{ if and .root.Values.strimzi.enabled .stage }}-{{ .stage }}{{ end }}, key: {{ $k.passwordKey }}}
{{- end }}
{{- end -}}

{{- define "pairstream.kafkaMounts" -}}
{{- $k := include "pairstream.kafka" . | fromYaml -}}
{{- if and $k.tls $k.caSecret }}
- {name: kafka-ca, mountPath: /etc/kafka-ca, readOnly: true}
{{- end }}
{{- if and $k.tls $k.clientSecret }}
- {name: kafka-client, mountPath: /etc/kafka-client, readOnly: true}
{{- end }}
{{- end -}}

{{- define "pairstream.kafkaVolumes" -}}
{{- $k := include "pairstream.kafka" . | fromYaml -}}
{{- if and $k.tls $k.caSecret }}
- name: kafka-ca
  secret:
    secretName: {{ $k.caSecret }}
    items: [{key: {{ $k.caKey }}, path: {{ $k.caKey }}}]
{{- end }}
{{- if and $k.tls $k.clientSecret }}
- name: kafka-client
  secret:
    secretName: {{ $k.clientSecret }}
    items:
      - {key: {{ $k.certKey }}, path: {{ $k.certKey }}}
      - {key: {{ $k.keyKey }}, path: {{ $k.keyKey }}}
{{- end }}
{{- end -}}

{{/* Every topic of the catalogue (schemas.Catalogue): its partitions, and the users with Strimzi that write it. */}}
{{- define "pairstream.topics" -}}
{{- $lanes := .Values.lanes -}}
pairs: {partitions: {{ $lanes }}, writers: [producer, operator]}
embeddings: {partitions: {{ $lanes }}, writers: [encoder]}
neighbors: {partitions: {{ $lanes }}, writers: [indexer]}
groups: {partitions: {{ $lanes }}, writers: [indexer]}
batches: {partitions: {{ $lanes }}, writers: [grouper]}
scored: {partitions: {{ $lanes }}, writers: [discriminator]}
features: {partitions: {{ $lanes }}, writers: [trainer]}
progress: {partitions: 1, writers: [trainer]}
dead-letters: {partitions: 1, writers: [encoder, indexer, grouper, discriminator, trainer, operator]}
control: {partitions: 1, writers: [encoder, indexer, grouper, discriminator, trainer, operator]}
sources: {partitions: 1, writers: [producer, operator]}
judgements: {partitions: 1, writers: [operator]}
forgotten: {partitions: 1, writers: [operator]}
{{- end -}}
