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

{{/* What every pod has beside its containers. */}}
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
  - name: home
    persistentVolumeClaim:
      claimName: {{ .root.Values.home.existingClaim | default (printf "%s-home" (include "tidemark.name" .root)) }}
  - name: tmp
    emptyDir: {}
  - name: files
    configMap: {name: {{ include "tidemark.name" .root }}-files}
{{- end -}}

{{- define "tidemark.annotations" -}}
checksum/config: {{ include (print .Template.BasePath "/config.yaml") . | sha256sum }}
{{- end -}}

{{/* What every container has beside its command: (dict "root" $ "resources" RESOURCES). */}}
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
  - {name: home, mountPath: /var/lib/tidemark}
  - {name: tmp, mountPath: /tmp}
  - {name: files, mountPath: /etc/tidemark, readOnly: true}
resources: {{- toYaml .resources | nindent 2 }}
{{- end -}}
