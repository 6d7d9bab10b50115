{{- define "tidemark.name" -}}
{{- if not (regexMatch "^[a-z]" .Release.Name) -}}
{{- fail "a release has a name that begins with a letter, as names of Services do" -}}
{{- end -}}
{{- .Release.Name | trunc 40 | trimSuffix "-" -}}
{{- end -}}

{{- define "tidemark.image" -}}
{{- with .Values.image.digest -}}
{{ $.Values.image.repository }}@{{ . }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end -}}

{{/* Labels that select the pods of a component: (dict "root" $ "component" NAME). */}}
{{- define "tidemark.selector" -}}
app.kubernetes.io/name: tidemark
app.kubernetes.io/instance: {{ .root.Release.Name | quote }}
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
serviceAccountName: {{ include "tidemark.name" .root | quote }}
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
{{- with .root.Values.affinity }}
affinity: {{- toYaml . | nindent 2 }}
{{- end }}
{{- with .root.Values.topologySpreadConstraints }}
topologySpreadConstraints:
  {{- range . }}
  {{- $selector := dict "matchLabels" (include "tidemark.selector" (dict "root" $.root) | fromYaml) }}
  - {{- merge (deepCopy .) (dict "labelSelector" $selector) | toYaml | nindent 4 }}
  {{- end }}
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
  {{- if or .root.Values.rules .root.Values.routing }}
  - name: rules
    configMap: {name: {{ include "tidemark.name" .root }}-rules}
  {{- end }}
  {{- if .root.Values.expectations }}
  - name: expectations
    configMap: {name: {{ include "tidemark.name" .root }}-expectations}
  {{- end }}
  {{- with .root.Values.secretFiles }}
  - name: secret-files
    secret: {secretName: {{ . | quote }}, defaultMode: 0440}
  {{- end }}
{{- end -}}

{{- define "tidemark.annotations" -}}
checksum/config: {{ include (print .Template.BasePath "/config.yaml") . | sha256sum }}
{{- with .Values.podAnnotations }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* Labels of a pod: (dict "root" $ "component" NAME). */}}
{{- define "tidemark.podLabels" -}}
{{ include "tidemark.labels" . }}
{{- with .root.Values.podLabels }}
{{ toYaml . }}
{{- end }}
{{- end -}}

{{/* The secrets of a container, by reference: (dict "root" $ "name" NAME). Those that it needs and no other, as
tidemark/settings/secrets.py has them. Accounts are the keys that fields *_env of clusters name;
receivers have those that they write as ${NAME}. */}}
{{- define "tidemark.secrets" -}}
{{- $catalog := list "TIDEMARK_CATALOG_URI" "TIDEMARK_STATE_URI" "TIDEMARK_CATALOG_CREDENTIAL" "TIDEMARK_CATALOG_TOKEN" -}}
{{- $dagster := list "DAGSTER_PG_URL" -}}
{{- $objects := list "AWS_ACCESS_KEY_ID" "AWS_SECRET_ACCESS_KEY" -}}
{{- $spark := list "SPARK_CONNECT_AUTHENTICATE_TOKEN" -}}
{{- $login := list "TIDEMARK_SERVE_TOKEN" "TIDEMARK_SERVE_READ_TOKEN" -}}
{{- $notices := list "TIDEMARK_NOTIFY_URLS" "TIDEMARK_DIGEST_URLS" "TIDEMARK_HEARTBEAT_URL" -}}
{{- range regexFindAll "\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}" .root.Values.routing -1 }}
{{- $notices = append $notices (trimAll "${}" .) }}
{{- end }}
{{- $accounts := list -}}
{{- range .root.Values.clusters }}
{{- range $field, $variable := .acl }}
{{- if hasSuffix "_env" $field }}
{{- $accounts = append $accounts $variable }}
{{- end }}
{{- end }}
{{- end }}
{{- $needed := dict
  "collector" (concat $catalog $objects $accounts)
  "engine" (concat $catalog $objects $spark)
  "code" (concat $catalog $dagster $objects $spark $notices $accounts)
  "daemon" $dagster
  "webserver" $dagster
  "board" (concat $catalog $objects $login $accounts) }}
{{- range uniq (index $needed .name) }}
- {name: {{ . | quote }}, valueFrom: {secretKeyRef: {name: {{ $.root.Values.secret | quote }}, key: {{ . | quote }}, optional: true}}}
{{- end }}
{{- end -}}

{{/* What every container has in addition to its command: (dict "root" $ "name" NAME "env" MORE). */}}
{{- define "tidemark.container" -}}
image: {{ include "tidemark.image" .root | quote }}
imagePullPolicy: {{ .root.Values.image.pullPolicy }}
securityContext:
  allowPrivilegeEscalation: false
  readOnlyRootFilesystem: true
  capabilities: {drop: [ALL]}
envFrom:
  - configMapRef: {name: {{ include "tidemark.name" .root }}-env}
env: {{- include "tidemark.secrets" . | trim | nindent 2 }}
  {{- with .env }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
volumeMounts:
  - {name: {{ .name }}-home, mountPath: /var/lib/tidemark}
  - {name: {{ .name }}-tmp, mountPath: /tmp}
  - {name: files, mountPath: /etc/tidemark, readOnly: true}
  {{- if or .root.Values.rules .root.Values.routing }}
  - {name: rules, mountPath: /etc/tidemark-rules, readOnly: true}
  {{- end }}
  {{- if .root.Values.expectations }}
  - {name: expectations, mountPath: /etc/tidemark-expectations, readOnly: true}
  {{- end }}
  {{- if .root.Values.secretFiles }}
  - {name: secret-files, mountPath: /run/secrets/tidemark, readOnly: true}
  {{- end }}
resources: {{- toYaml (index .root.Values .name).resources | nindent 2 }}
{{- end -}}
