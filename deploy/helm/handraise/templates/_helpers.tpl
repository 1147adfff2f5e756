{{- define "handraise.name" -}}
{{- default .Chart.Name .Values.nameOverride | trunc 50 | trimSuffix "-" -}}
{{- end }}

{{- define "handraise.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride | trunc 50 | trimSuffix "-" -}}
{{- else -}}
{{- $name := include "handraise.name" . -}}
{{- ternary .Release.Name (printf "%s-%s" .Release.Name $name) (contains $name .Release.Name) | trunc 50 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- /* Of every object. */ -}}
{{- define "handraise.commonLabels" -}}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version | replace "+" "_" | trunc 63 | trimSuffix "-" }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
app.kubernetes.io/part-of: handraise
{{- end }}

{{- define "handraise.serverSelector" -}}
app.kubernetes.io/name: {{ include "handraise.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: server
{{- end }}

{{- define "handraise.migrateSelector" -}}
app.kubernetes.io/name: {{ include "handraise.name" . }}
app.kubernetes.io/instance: {{ .Release.Name }}
app.kubernetes.io/component: migrate
{{- end }}

{{- define "handraise.serverLabels" -}}
{{ include "handraise.serverSelector" . }}
{{ include "handraise.commonLabels" . }}
{{- end }}

{{- define "handraise.migrateLabels" -}}
{{ include "handraise.migrateSelector" . }}
{{ include "handraise.commonLabels" . }}
{{- end }}

{{- define "handraise.serviceAccountName" -}}
{{- if .Values.serviceAccount.create -}}
{{- default (include "handraise.fullname" .) .Values.serviceAccount.name -}}
{{- else -}}
{{- default "default" .Values.serviceAccount.name -}}
{{- end -}}
{{- end }}

{{- define "handraise.image" -}}
{{- with .Values.image -}}
{{- if .digest -}}
{{ printf "%s@%s" .repository .digest }}
{{- else -}}
{{ printf "%s:%s" .repository (default $.Chart.AppVersion .tag) }}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "handraise.host" -}}
{{- (urlParse .Values.publicUrl).hostname -}}
{{- end }}

{{- /* Of pods: a number that is not root, as in the image. */ -}}
{{- define "handraise.podSecurityContext" -}}
runAsNonRoot: true
runAsUser: 10001
runAsGroup: 10001
seccompProfile: {type: RuntimeDefault}
{{- end }}

{{- define "handraise.containerSecurityContext" -}}
allowPrivilegeEscalation: false
readOnlyRootFilesystem: true
capabilities: {drop: [ALL]}
{{- end }}

{{- define "handraise.image.lines" -}}
image: {{ include "handraise.image" . | quote }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
{{- end }}

{{- /* What every server has, and the test of a release. */ -}}
{{- define "handraise.serverEnv" -}}
- {name: HANDRAISE_URL, value: {{ .Values.database.url | quote }}}
{{- with .Values.database.listenUrl }}
- {name: HANDRAISE_LISTEN_URL, value: {{ . | quote }}}
{{- end }}
{{- with .Values.nats.url }}
- {name: HANDRAISE_BUS, value: {{ . | quote }}}
{{- end }}
- {name: HANDRAISE_PUBLIC_URL, value: {{ required "publicUrl is not set: where do people reach the server, such as https://handraise.example.com?" .Values.publicUrl | quote }}}
{{- with .Values.trustedProxies }}
- {name: HANDRAISE_TRUSTED_PROXIES, value: {{ join "," . | quote }}}
{{- end }}
# Requests still come for a moment after a pod is told to stop.
- {name: HANDRAISE_DRAIN_SECONDS, value: {{ .Values.drainSeconds | quote }}}
- {name: HANDRAISE_STOP_SECONDS, value: {{ .Values.stopSeconds | quote }}}
{{- range $name, $value := .Values.settings }}
- {name: {{ $name }}, value: {{ ternary $value (toJson $value) (kindIs "string" $value) | quote }}}
{{- end }}
{{- with .Values.extraEnv }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Ports of one protocol and their peers: a rule of a network policy. */ -}}
{{- define "handraise.egress" -}}
- ports:
    {{- range $port := .ports }}
    - {protocol: TCP, port: {{ $port }}}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

{{- define "handraise.egress.dns" -}}
- ports:
    {{- range $port := .ports }}
    - {protocol: UDP, port: {{ $port }}}
    - {protocol: TCP, port: {{ $port }}}
    {{- end }}
  {{- with .to }}
  to:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}
