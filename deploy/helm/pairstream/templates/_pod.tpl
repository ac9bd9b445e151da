{{/* The Pod of a stage: dict "root" $ "stage" name "disk" mount path or "" "settings" the ConfigMap's text. */}}
{{- define "pairstream.pod" -}}
{{- $root := .root -}}
{{- $v := .root.Values -}}
{{- $s := index .root.Values .stage -}}
{{- $name := include "pairstream.fullname" .root -}}
{{- $gpus := int (default 0 $s.gpus) -}}
{{- $torch := and (eq .stage "trainer") (eq $v.trainer.kind "torch") -}}
{{- $follows := and (eq .stage "encoder") (eq $v.encoder.checkpoint "@latest") -}}
{{- $ranks := and (eq .stage "trainer") (include "pairstream.ranks" .root) -}}
metadata:
  labels:
    {{- include "pairstream.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .stage }}
    {{- with $s.podLabels }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
  annotations:
    # Pods are replaced when a setting changes.
    checksum/settings: {{ printf "%s%s" (include "pairstream.commonSettings" $root) .settings | sha256sum }}
    {{- with $s.podAnnotations }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
spec:
  serviceAccountName: {{ include "pairstream.serviceAccount" $root }}
  automountServiceAccountToken: false
  enableServiceLinks: false
  terminationGracePeriodSeconds: {{ $v.terminationGracePeriodSeconds }}
  securityContext:
    {{- toYaml $v.podSecurityContext | nindent 4 }}
  {{- with $v.image.pullSecrets }}
  imagePullSecrets:
    {{- range . }}
    - name: {{ . }}
    {{- end }}
  {{- end }}
  {{- include "pairstream.placement" $s | trim | nindent 2 }}
  topologySpreadConstraints:
    - maxSkew: 1
      topologyKey: kubernetes.io/hostname
      whenUnsatisfiable: ScheduleAnyway
      labelSelector:
        matchLabels:
          {{- include "pairstream.selector" $root | nindent 10 }}
          app.kubernetes.io/component: {{ .stage }}
  containers:
    - name: {{ .stage }}
      image: {{ include "pairstream.image" (dict "root" $root "gpu" (gt $gpus 0) "torch" $torch) | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      {{- if $torch }}
      # Every Pod is a node of torchrun's; the first one is where they meet, under the name that the headless Service gives it.
      command: [torchrun]
      args:
        - --nnodes={{ min $s.replicas $v.lanes }}
        - --node_rank=$(NODE_RANK)
        - --nproc_per_node={{ max $gpus 1 }}
        - --master_addr={{ printf "%s-trainer-0.%s-trainer" $name $name }}
        - --master_port=29500
        {{- range $s.command }}
        - {{ . | quote }}
        {{- end }}
      {{- else }}
      command: [/usr/local/bin/{{ .stage }}]
      {{- end }}
      envFrom:
        - configMapRef: {name: {{ $name }}}
        - configMapRef: {name: {{ $name }}-{{ .stage }}}
        {{- include "pairstream.secret" (dict "root" $root "part" .stage) | nindent 8 }}
      {{- $password := include "pairstream.password" (dict "root" $root "stage" .stage) }}
      {{- if or $password $torch $ranks }}
      env:
        {{- $password | nindent 8 }}
        {{- if or $torch $ranks }}
        - name: {{ ternary "NODE_RANK" "RANK" $torch }}
          valueFrom:
            fieldRef: {fieldPath: "metadata.labels['apps.kubernetes.io/pod-index']"}
        {{- end }}
      {{- end }}
      {{- if $torch }}
      ports:
        - {name: rendezvous, containerPort: 29500}
      {{- else }}
      ports:
        - {name: http, containerPort: 9090}
        - {name: health, containerPort: 9091}
        {{- if and (eq .stage "indexer") $s.livePort }}
        - {name: live, containerPort: {{ $s.livePort }}}
        {{- end }}
        {{- if $ranks }}
        - {name: rendezvous, containerPort: 29500}
        {{- end }}
      startupProbe:
        httpGet: {path: /healthz, port: health}
        periodSeconds: 5
        failureThreshold: {{ $v.startupFailureThreshold }}
      livenessProbe:
        httpGet: {path: /healthz, port: health}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet: {path: /readyz, port: health}
        periodSeconds: 5
        timeoutSeconds: 5
      {{- end }}
      resources:
        requests:
          {{- toYaml $s.resources.requests | nindent 10 }}
        limits:
          {{- toYaml $s.resources.limits | nindent 10 }}
          {{- if $gpus }}
          {{ $s.gpuResource }}: {{ $gpus }}
          {{- end }}
      securityContext:
        {{- toYaml $v.securityContext | nindent 8 }}
      volumeMounts:
        - {name: tmp, mountPath: /tmp}
        - {name: models, mountPath: /models, readOnly: true}
        {{- if $torch }}
        - {name: shm, mountPath: /dev/shm}
        {{- end }}
        {{- if $v.bucket.volume }}
        - {name: bucket, mountPath: /data, readOnly: true}
        {{- end }}
        {{- if $v.spool.volume }}
        - {name: spool, mountPath: /spool, readOnly: {{ not (or (eq .stage "encoder") (and (eq .stage "indexer") (or (get (merge dict $v.indexer.settings $v.settings) "REPACK_ROOT") (get (merge dict $v.indexer.settings $v.settings) "SEGMENTS_ROOT")))) }}}
        {{- end }}
        {{- with .disk }}
        - {name: disk, mountPath: {{ . }}}
        {{- end }}
        {{- if $follows }}
        - {name: disk, mountPath: /checkpoints, readOnly: true}
        {{- end }}
        {{- include "pairstream.kafkaMounts" $root | nindent 8 }}
        {{- with $s.extraVolumeMounts }}
        {{- toYaml . | nindent 8 }}
        {{- end }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: {{ $v.tmpSize }}}
    {{- if $torch }}
    - name: shm # through which the workers of a DataLoader hand over batches; it counts as memory
      emptyDir: {medium: Memory}
    {{- end }}
    {{- if or $follows (and (eq .stage "trainer") $s.volume) }}
    - name: disk
      {{- toYaml $v.trainer.volume | nindent 6 }}
    {{- end }}
    - name: models
      {{- toYaml $v.models.volume | nindent 6 }}
    {{- with $v.bucket.volume }}
    - name: bucket
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- with $v.spool.volume }}
    - name: spool
      {{- toYaml . | nindent 6 }}
    {{- end }}
    {{- include "pairstream.kafkaVolumes" $root | nindent 4 }}
    {{- with $s.extraVolumes }}
    {{- toYaml . | nindent 4 }}
    {{- end }}
{{- end -}}

{{/* The settings of a stage, as lines of its ConfigMap: dict "root" $ "stage" name. */}}
{{- define "pairstream.stageSettings" -}}
{{- $v := .root.Values -}}
{{- $s := index $v .stage -}}
{{- if and (gt (int (default 0 $s.gpus)) 0) (ne (default "go" $s.kind) "torch") }}
DEVICE: cuda
{{- end }}
{{- if $v.strimzi.enabled }}
KAFKA_SASL_USER: {{ include "pairstream.fullname" .root }}-{{ .stage }}
{{- end }}
{{- if eq .stage "encoder" }}
ENCODER_CHECKPOINT: {{ $s.checkpoint | quote }}
{{- if eq $s.checkpoint "@latest" }}
{{- if or (not $v.trainer.volume) (ne $v.trainer.kind "go") }}{{ fail "encoder.checkpoint is @latest: want trainer.kind go, and in trainer.volume a volume that the encoder's Pods share with the trainer" }}{{ end }}
CHECKPOINT_DIR: /checkpoints
{{- end }}
{{- if $v.spool.volume }}
SPOOL_DIR: /spool
{{- end }}
{{- else if eq .stage "indexer" }}
{{- if $s.livePort }}
{{- if not (or $s.secretName $v.secretName) }}{{ fail "indexer.livePort is set: live search needs LIVE_TOKEN in a Secret that indexer.secretName or secretName names" }}{{ end }}
LIVE_ADDR: ":{{ $s.livePort }}"
{{- end }}
{{- else if eq .stage "discriminator" }}
COND_CHECKPOINT: {{ $s.checkpoint | quote }}
{{- else if eq $s.kind "go" }}
TRAIN_INIT: {{ $s.init | quote }}
CHECKPOINT_DIR: /checkpoints
{{- if eq $v.encoder.checkpoint "@latest" }}
ENCODER_CHECKPOINT: "@latest"
{{- end }}
{{- if include "pairstream.ranks" .root }}
{{- $name := include "pairstream.fullname" .root }}
WORLD_SIZE: {{ $s.replicas | quote }}
MASTER_ADDR: {{ printf "%s-trainer-0.%s-trainer" $name $name }}
MASTER_PORT: "29500"
RANK_PORT: "29500"
{{- end }}
{{- end }}
{{ include "pairstream.settings" (dict "root" .root "of" (printf "%s.settings" .stage) "settings" $s.settings) }}
{{- end -}}
