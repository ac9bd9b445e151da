{{/* The Pod of a stage: dict "root" $ "stage" name "disk" mount path or "" "settings" the ConfigMap's text. */}}
{{- define "pairstream.pod" -}}
{{- $root := .root -}}
{{- $v := .root.Values -}}
{{- $s := index .root.Values .stage -}}
{{- $name := include "pairstream.fullname" .root -}}
{{- $gpus := int (default 0 $s.gpus) -}}
metadata:
  labels:
    {{- include "pairstream.labels" $root | nindent 4 }}
    app.kubernetes.io/component: {{ .stage }}
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
  {{- with $s.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $s.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with $s.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
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
      image: {{ include "pairstream.image" (dict "root" $root "gpu" (gt $gpus 0)) | quote }}
      imagePullPolicy: {{ $v.image.pullPolicy }}
      command: [/usr/local/bin/{{ .stage }}]
      envFrom:
        - configMapRef: {name: {{ $name }}}
        - configMapRef: {name: {{ $name }}-{{ .stage }}}
        {{- with $v.secretName }}
        - secretRef: {name: {{ . }}}
        {{- end }}
      {{- with include "pairstream.password" (dict "root" $root "stage" .stage) }}
      env:
        {{- . | nindent 8 }}
      {{- end }}
      ports:
        - {name: http, containerPort: 9090}
        - {name: health, containerPort: 9091}
        {{- if and (eq .stage "indexer") $s.livePort }}
        - {name: live, containerPort: {{ $s.livePort }}}
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
        {{- if $v.bucket.volume }}
        - {name: bucket, mountPath: /data, readOnly: true}
        {{- end }}
        {{- if $v.spool.volume }}
        - {name: spool, mountPath: /spool, readOnly: {{ ne .stage "encoder" }}}
        {{- end }}
        {{- with .disk }}
        - {name: disk, mountPath: {{ . }}}
        {{- end }}
        {{- include "pairstream.kafkaMounts" $root | nindent 8 }}
  volumes:
    - name: tmp
      emptyDir: {sizeLimit: {{ $v.tmpSize }}}
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
{{- end -}}

{{/* The settings of a stage, as lines of its ConfigMap: dict "root" $ "stage" name. */}}
{{- define "pairstream.stageSettings" -}}
{{- $v := .root.Values -}}
{{- $s := index $v .stage -}}
{{- if gt (int (default 0 $s.gpus)) 0 }}
DEVICE: cuda
{{- end }}
{{- if $v.strimzi.enabled }}
KAFKA_SASL_USER: {{ include "pairstream.fullname" .root }}-{{ .stage }}
{{- end }}
{{- if eq .stage "encoder" }}
ENCODER_CHECKPOINT: {{ $s.checkpoint | quote }}
{{- if $v.spool.volume }}
SPOOL_DIR: /spool
{{- end }}
{{- else if eq .stage "indexer" }}
GROUP_SIZE: {{ $s.groupSize | int64 | quote }}
{{- if $s.livePort }}
{{- if not $v.secretName }}{{ fail "indexer.livePort is set: live search needs LIVE_TOKEN in a Secret that secretName names" }}{{ end }}
LIVE_ADDR: ":{{ $s.livePort }}"
{{- end }}
{{- else if eq .stage "grouper" }}
EPOCHS: {{ $s.epochs | quote }}
STRATEGY: {{ $s.strategy }}
BATCH_SIZE: {{ $s.batchSize | quote }}
{{- else if eq .stage "discriminator" }}
COND_CHECKPOINT: {{ $s.checkpoint | quote }}
{{- else if eq .stage "trainer" }}
TRAIN_INIT: {{ $s.init | quote }}
CHECKPOINT_DIR: /checkpoints
{{- end }}
{{ include "pairstream.settings" (dict "root" .root "of" (printf "%s.settings" .stage) "settings" $s.settings) }}
{{- end -}}
