{{- define "tidemark.name" -}}
{{- printf "%s" .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidemark.image" -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}

{{/* Labels that select the pods of a component: (dict "root" $ "component" NAME). */}}
{{- define "tidemark.selector" -}}
app.kubernetes.io/name: tidemark
app.kubernetes.io/instance: {{ .root.Release.Name }}
{{- with .component }}
app.kubernetes.io/component: {{ . }}
{{- end }}
{{- end -}}

{{- define "tidemark.labels" -}}
{{ include "tidemark.selector" . }}
app.kubernetes.io/version: {{ .root.Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .root.Release.Service }}
helm.sh/chart: {{ .root.Chart.Name }}-{{ .root.Chart.Version }}
{{- end -}}

{{/* What every pod has in addition to its containers: (dict "root" $ "containers" NAMES). Each container has
folders of its own to write to; pods share no disk. */}}
{{- define "tidemark.pod" -}}
serviceAccountName: {{ include "tidemark.name" .root }}
automountServiceAccountToken: {{ .token | default false }}
enableServiceLinks: false
{{- with .root.Values.image.pullSecrets }}
imagePullSecrets: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.nodeSelector }}
nodeSelector: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.tolerations }}
tolerations: {{- toYaml . | nindent 2 }}
{{- end }}
securityContext:
  runAsNonRoot: true
  runAsUser: 10001
  runAsGroup: 10001
  fsGroup: 10001
  fsGroupChangePolicy: OnRootMismatch
  seccompProfile: {type: RuntimeDefault}
volumes:
  {{- range $container := .containers }}
  {{- range $folder := list "home" "tmp" }}
  - name: {{ $container }}-{{ $folder }}
    emptyDir: {sizeLimit: {{ $.root.Values.scratch.size }}}
  {{- end }}
  {{- end }}
  - name: files
    configMap: {name: {{ include "tidemark.name" .root }}-files}
  {{- if .root.Values.expectations }}
  - name: expectations
    configMap: {name: {{ include "tidemark.name" .root }}-expectations}
  {{- end }}
  {{- with .root.Values.secretFiles }}
  - name: secret-files
    secret: {secretName: {{ . }}, defaultMode: 0440}
  {{- end }}
{{- end -}}

{{- define "tidemark.annotations" -}}
checksum/config: {{ include (print .Template.BasePath "/config.yaml") . | sha256sum }}
{{- end -}}

{{/* What every container has in addition to its command: (dict "root" $ "name" NAME). */}}
{{- define "tidemark.container" -}}
image: {{ include "tidemark.image" .root }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
envFrom:
  - configMapRef: {name: {{ include "tidemark.name" .root }}-env}
  - secretRef: {name: {{ .root.Values.secret }}}
volumeMounts:
  - {name: {{ .name }}-home, mountPath: /var/lib/tidemark}
  - {name: {{ .name }}-tmp, mountPath: /tmp}
  - {name: files, mountPath: /etc/tidemark, readOnly: true}
  {{- if .root.Values.expectations }}
  - {name: expectations, mountPath: /etc/tidemark-expectations, readOnly: true}
  {{- end }}
  {{- if .root.Values.secretFiles }}
  - {name: secret-files, mountPath: /run/secrets/tidemark, readOnly: true}
  {{- end }}
resources: {{- toYaml (index .root.Values .name).resources | nindent 2 }}
{{- end -}}
