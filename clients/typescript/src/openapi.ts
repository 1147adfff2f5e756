// Made from docs/reference/openapi.json by `npm run types`. Do not edit it.

export interface components {
    schemas: {
        readonly Action: {
            readonly arguments: {
                readonly [key: string]: unknown;
            };
            readonly tool: string;
        };
        readonly ActionRecord: {
            readonly arguments: {
                readonly [key: string]: unknown;
            };
            readonly tool: string;
        };
        readonly Approval: {
            readonly action: components["schemas"]["Action"];
            readonly brief?: components["schemas"]["Brief"] | null;
            readonly digest: string;
            readonly editable?: readonly components["schemas"]["Field"][];
            readonly kind: "approval";
            readonly remember_by?: readonly string[] | null;
            readonly remember_for?: number;
            readonly risk?: "low" | "medium" | "high";
            readonly scopes?: readonly ("once" | "session" | "always")[];
            readonly valid_for?: number | null;
        };
        readonly AsideRecord: {
            readonly person: string;
            readonly until?: string | null;
        };
        readonly "Attachment-Input": {
            readonly digest: string;
            readonly media_type: string;
            readonly name: string;
            readonly size: number;
        };
        readonly "Attachment-Output": {
            readonly digest: string;
            readonly media_type: string;
            readonly name: string;
            readonly size: number;
        };
        readonly Brief: {
            readonly affects?: string | null;
            readonly checked?: readonly string[];
            readonly links?: readonly components["schemas"]["Link"][];
            readonly reversible?: boolean | null;
            readonly why?: string | null;
        };
        readonly CallbackRequest: {
            readonly secret: string;
            readonly url: string;
        };
        readonly CallerRecord: {
            readonly admin_token?: string | null;
            readonly agent?: string | null;
            readonly person?: string | null;
            readonly reader?: string | null;
            readonly role?: components["schemas"]["Role"] | null;
            readonly workspace: string;
        };
        readonly Choice: {
            readonly allow_other?: boolean;
            readonly kind: "choice";
            readonly options: readonly components["schemas"]["Option"][];
        };
        readonly Confirm: {
            readonly kind: "confirm";
        };
        readonly ConsumeQuestion: {
            readonly request?: string | null;
        };
        readonly "EscalationRecord-Input": {
            readonly after: number | string;
            readonly to: readonly string[];
        };
        readonly "EscalationRecord-Output": {
            readonly after: number;
            readonly to: readonly string[];
        };
        readonly EventKind: "asked" | "attempted" | "voted" | "reminded" | "escalated" | "answered" | "declined" | "expired" | "withdrawn" | "exhausted" | "returned" | "replaced" | "consumed" | "taken_back" | "reported" | "asked_back" | "noted" | "replied" | "opened" | "taken" | "released" | "brought_in" | "handed_over" | "set_aside" | "put_back" | "revoked" | "kept" | "sent" | "joined" | "unreached";
        readonly EventPage: {
            readonly items: readonly components["schemas"]["EventRecord"][];
            readonly next?: string | null;
        };
        readonly EventRecord: {
            readonly at: string;
            readonly by?: string | null;
            readonly channel?: string | null;
            readonly cursor: string;
            readonly data?: unknown;
            readonly kind: components["schemas"]["EventKind"];
            readonly question_id: string;
            readonly workspace: string;
        };
        readonly Field: {
            readonly default?: unknown;
            readonly description?: string | null;
            readonly form: components["schemas"]["Choice"] | components["schemas"]["MultiChoice"] | components["schemas"]["Open"] | components["schemas"]["Confirm"] | components["schemas"]["File"];
            readonly name: string;
            readonly required?: boolean;
            readonly title?: string | null;
        };
        readonly File: {
            readonly accept?: readonly string[];
            readonly kind: "file";
            readonly max_bytes?: number | null;
        };
        readonly Form: {
            readonly fields: readonly components["schemas"]["Field"][];
            readonly kind: "form";
        };
        readonly HeartbeatsRecord: {
            readonly heartbeats: {
                readonly [key: string]: number;
            };
        };
        readonly Link: {
            readonly label: string;
            readonly url: string;
        };
        readonly MatchRecord: {
            readonly effect: "deny" | "require" | "allow";
            readonly failed: boolean;
            readonly mode: "enforce" | "observe";
            readonly rule: string;
        };
        readonly MessageRecord: {
            readonly at: string;
            readonly attachments: readonly components["schemas"]["Attachment-Output"][];
            readonly by: string;
            readonly channel?: string | null;
            readonly kind: "asked_back" | "noted" | "replied";
            readonly number: number;
            readonly text: string;
        };
        readonly MultiChoice: {
            readonly allow_other?: boolean;
            readonly at_least?: number;
            readonly at_most?: number | null;
            readonly kind: "multi_choice";
            readonly options: readonly components["schemas"]["Option"][];
        };
        readonly NeedRecord: {
            readonly count: number;
            readonly people: readonly string[];
            readonly stage: number;
        };
        readonly Open: {
            readonly kind: "open";
            readonly max_length?: number | null;
            readonly maximum?: number | null;
            readonly min_length?: number;
            readonly minimum?: number | null;
            readonly pattern?: string | null;
            readonly type?: "text" | "integer" | "number" | "email" | "uri" | "date" | "datetime";
        };
        readonly Option: {
            readonly description?: string | null;
            readonly id: string;
            readonly label: string;
            readonly preview?: string | null;
            readonly reason?: string | null;
            readonly recommended?: boolean;
        };
        readonly OutcomeRecord: {
            readonly at: string;
            readonly by?: string | null;
            readonly channel?: string | null;
            readonly evidence?: string | null;
            readonly reason?: string | null;
            readonly source?: ("person" | "default" | "grant" | "policy" | "shared" | "standing") | null;
            readonly status: "answered" | "declined" | "expired" | "withdrawn" | "exhausted" | "returned";
            readonly value?: unknown;
        };
        readonly OutcomeState: {
            readonly id: string;
            readonly outcome?: components["schemas"]["OutcomeRecord"] | null;
            readonly status: components["schemas"]["Status"];
        };
        readonly OutcomeStates: {
            readonly settled: readonly components["schemas"]["OutcomeState"][];
            readonly unknown: readonly string[];
        };
        readonly PostQuestion: {
            readonly attachments?: readonly components["schemas"]["Attachment-Input"][];
            readonly callback?: components["schemas"]["CallbackRequest"] | null;
            readonly check_recipients?: boolean;
            readonly choices?: readonly (string | components["schemas"]["Option"])[] | null;
            readonly context?: unknown;
            readonly conversation?: string | null;
            readonly expires_in?: number | string | null;
            readonly form?: ((components["schemas"]["Choice"] | components["schemas"]["MultiChoice"] | components["schemas"]["Open"] | components["schemas"]["Confirm"] | components["schemas"]["File"] | components["schemas"]["Form"] | components["schemas"]["Approval"]) | {
                readonly [key: string]: unknown;
            }) | null;
            readonly heartbeat?: number | string | null;
            readonly id?: string | null;
            readonly if_exists?: "equal" | "keep";
            readonly key?: string | null;
            readonly max_attempts?: number | null;
            readonly prompt: string;
            readonly quorum?: number;
            readonly recipients?: readonly string[];
            readonly replaces?: string | null;
            readonly replies?: ("program" | "model") | null;
            readonly shared?: boolean;
            readonly state?: unknown;
            readonly timeline?: components["schemas"]["TimelineRecord-Input"] | null;
            readonly tool_call?: string | null;
            readonly topic?: string | null;
            readonly trace?: string | null;
            readonly undo_for?: number | string;
            readonly veto?: boolean;
        };
        readonly ProblemDocument: {
            readonly code: string;
            readonly detail: string;
            readonly outcome?: components["schemas"]["OutcomeRecord"] | null;
            readonly problems: readonly components["schemas"]["ProblemEntry"][];
            readonly question?: components["schemas"]["QuestionRecord"] | null;
            readonly quota?: number | null;
            readonly reason?: string | null;
            readonly report?: components["schemas"]["ReportRecord"] | null;
            readonly retry_after?: number | null;
            readonly seen?: number | null;
            readonly status: number;
            readonly stop?: components["schemas"]["StopRecord"] | null;
            readonly taken_by?: string | null;
            readonly thread?: number | null;
            readonly title: string;
            readonly type: string;
            readonly until?: string | null;
        };
        readonly ProblemEntry: {
            readonly message: string;
            readonly path: string;
        };
        readonly QuestionPage: {
            readonly items: readonly components["schemas"]["QuestionRecord"][];
            readonly next?: string | null;
        };
        readonly QuestionRecord: {
            readonly added: readonly string[];
            readonly aside: readonly components["schemas"]["AsideRecord"][];
            readonly asked_at: string;
            readonly asked_back: number;
            readonly asker: string;
            readonly attachments: readonly components["schemas"]["Attachment-Output"][];
            readonly attempts: number;
            readonly audience: readonly string[];
            readonly consumed_at?: string | null;
            readonly context?: unknown;
            readonly conversation?: string | null;
            readonly due_at?: string | null;
            readonly evidence?: ("session" | "passkey") | null;
            readonly expires_at?: string | null;
            readonly follows?: string | null;
            readonly form: components["schemas"]["Choice"] | components["schemas"]["MultiChoice"] | components["schemas"]["Open"] | components["schemas"]["Confirm"] | components["schemas"]["File"] | components["schemas"]["Form"] | components["schemas"]["Approval"];
            readonly heard_at?: string | null;
            readonly heartbeat?: number | null;
            readonly id: string;
            readonly key?: string | null;
            readonly max_attempts?: number | null;
            readonly missing: readonly number[];
            readonly needs: readonly components["schemas"]["NeedRecord"][];
            readonly outcome?: components["schemas"]["OutcomeRecord"] | null;
            readonly prompt: string;
            readonly quorum: number;
            readonly recipients: readonly string[];
            readonly replaced_by?: string | null;
            readonly replaces?: string | null;
            readonly replied: number;
            readonly replies?: ("program" | "model") | null;
            readonly report?: components["schemas"]["ReportRecord"] | null;
            readonly ruling?: components["schemas"]["RulingRecord"] | null;
            readonly sent_at?: string | null;
            readonly shared: boolean;
            readonly state?: unknown;
            readonly status: components["schemas"]["Status"];
            readonly stepped_at?: string | null;
            readonly steps_taken: number;
            readonly taken_back_at?: string | null;
            readonly taken_by?: string | null;
            readonly taken_until?: string | null;
            readonly thread: number;
            readonly timeline?: components["schemas"]["TimelineRecord-Output"] | null;
            readonly tool_call?: string | null;
            readonly topic?: string | null;
            readonly trace?: string | null;
            readonly undo_for: number;
            readonly unreached_at?: string | null;
            readonly url?: string | null;
            readonly veto: boolean;
            readonly votes: readonly components["schemas"]["VoteRecord"][];
            readonly workspace: string;
        };
        readonly ReceiptToken: {
            readonly receipt: string;
        };
        readonly ReplyToPeople: {
            readonly attachments?: readonly components["schemas"]["Attachment-Input"][];
            readonly text: string;
            readonly to?: number | null;
        };
        readonly ReportQuestion: {
            readonly details?: unknown;
            readonly link?: string | null;
            readonly ok: boolean;
            readonly text: string;
        };
        readonly ReportRecord: {
            readonly at: string;
            readonly details?: unknown;
            readonly link?: string | null;
            readonly ok: boolean;
            readonly text: string;
        };
        readonly Role: "member" | "admin";
        readonly RulingRecord: {
            readonly asked: {
                readonly [key: string]: unknown;
            };
            readonly checked?: string | null;
            readonly close_orphans?: number | null;
            readonly matches: readonly components["schemas"]["MatchRecord"][];
            readonly names_people: boolean;
            readonly standing?: string | null;
            readonly version: number;
        };
        readonly Status: "pending" | "answered" | "declined" | "expired" | "withdrawn" | "exhausted" | "returned";
        readonly StopRecord: {
            readonly agent?: string | null;
            readonly at: string;
            readonly by?: string | null;
            readonly id: string;
            readonly tool?: string | null;
            readonly why: string;
        };
        readonly Thread: {
            readonly items: readonly components["schemas"]["MessageRecord"][];
        };
        readonly "TimelineRecord-Input": {
            readonly default?: unknown;
            readonly escalate?: readonly components["schemas"]["EscalationRecord-Input"][];
            readonly expire?: number | string | null;
            readonly remind?: readonly (number | string)[];
            readonly working?: {
                readonly [key: string]: string;
            } | null;
        };
        readonly "TimelineRecord-Output": {
            readonly default?: unknown;
            readonly escalate: readonly components["schemas"]["EscalationRecord-Output"][];
            readonly expire?: number | null;
            readonly remind: readonly number[];
            readonly working?: {
                readonly [key: string]: string;
            } | null;
        };
        readonly VoteRecord: {
            readonly ballot: string;
            readonly by: string;
            readonly reason?: string | null;
            readonly value?: unknown;
        };
    };
    responses: never;
    parameters: never;
    requestBodies: never;
    headers: never;
    pathItems: never;
}
