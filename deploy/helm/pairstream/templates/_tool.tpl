{{/* A Pod that runs one command of pairstream: dict "root" $ "name" of the container "args" of the command "settings"
name of the ConfigMap. */}}
{{- define "pairstream.tool" -}}
{{- $v := .root.Values -}}
restartPolicy: Never
automountServiceAccountToken: false
enableServiceLinks: false
securityContext:
  {{- toYaml $v.podSecurityContext | nindent 2 }}
{{- with $v.image.pullSecrets }}
imagePullSecrets:
  {{- range . }}
  - name: {{ . }}
  {{- end }}
{{- end }}
containers:
  - name: {{ .name }}
    image: {{ include "pairstream.image" (dict "root" .root "gpu" false) | quote }}
    imagePullPolicy: {{ $v.image.pullPolicy }}
    command: [/usr/local/bin/pairstream, {{ .args }}]
    envFrom:
      - configMapRef: {name: {{ .settings }}}
    {{- with include "pairstream.password" (dict "root" .root "stage" "") }}
    env:
      {{- . | nindent 6 }}
    {{- end }}
    resources:
      {{- toYaml $v.topicsJob.resources | nindent 6 }}
    securityContext:
      {{- toYaml $v.securityContext | nindent 6 }}
    volumeMounts:
      - {name: tmp, mountPath: /tmp}
      {{- include "pairstream.kafkaMounts" .root | nindent 6 }}
volumes:
  - name: tmp
    emptyDir: {sizeLimit: 16Mi}
  {{- include "pairstream.kafkaVolumes" .root | nindent 2 }}
{{- end -}}
